"""Sections of the papers' page on PredictDDL: one model reused, regressions, collection time."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from forecasting.evaluation import PaperEvaluation
from forecasting.findings.cross_validation import (
    EPOCH_IMAGES,
    FAMILIES,
    RANDOM,
    Contest,
    errors_by_servers,
)
from forecasting.findings.predictddl import ABOUT, OTHERS, PartialRegressions, Reuse
from reports import predictddl_figures
from reports.html import Cell, caption_figure, grid, table
from reports.predictddl_figures import HEAD, figures, judged_by, noise, ratios_of, select_drawn
from reports.wording import DASH, percent

TITLE = "Assogba et al., PredictDDL (2023)"
BESIDE: Mapping[str, str] = {
    "Which networks were measured": "section IV-A2",
    "Errors by network, beside Ernest": "section IV-B1",
    "Errors by number of servers": "section IV-B4",
    "Time before an answer": "section IV-B5",
}
"""Sections by title, and what of the paper's own figures stands there: place and quantity."""


def sections(found: PaperEvaluation) -> Iterator[str]:
    """Yield the sections of a round by the paper's questions; some are empty."""
    yield reuse_section(found.reuse)
    yield regressions_section(found.reuse)


# One model reused for networks that never ran (Figs. 9, 12, 13, Tables I, II of PredictDDL).


_KNOWN: Mapping[str, str] = {
    "network": "trained on",
    "family": "its family is trained on",
    "neither": "of another family",
}
_SEES: Mapping[str, str] = {
    "none": "the linear model of work alone, which does not see the embedding",
    "gaussian_process": "work and a Gaussian process, which sees the embedding",
    "trees": "work and boosted trees, which see the embedding",
}
"""Regressors by their names in `models.predictddl.residuals`."""
_LEFT_OUT: Mapping[str, str] = {
    "predictddl": "predictddl",
    "log_linear": "log_linear",
    "histogram": "counts of operations",
}
_BESIDE = (
    "<p>Forecasts that were in the ledger before the steps were measured, by networks that train "
    "scenarios have (<em>seen</em>) and others; nodes of a type that no step was measured on stand "
    "apart. The paper's split, random fifths of all runs, "
    "follows: it sees other runs of the networks that it is judged by, and each of its "
    "forecasts was made after the fact. As published, the best of four kinds of regressors is "
    "chosen anew of the runs that a fit sees; ours has the regressors that the fit in the ledger "
    "chose. The paper has 1 to 4 % on "
    "CIFAR-10, 1 to 30 % on Tiny-ImageNet, 8 % in the mean; Ernest's error is 9.8 times that. "
    "Systems of other studies stand here where they forecast the same scenarios, n of them; "
    "<em>Time before an answer</em> has all systems on those of Ernest's own runs.</p>"
)
_SERVERS = (
    "<p>Forecasts that were in the ledger before the steps were measured. In the paper, errors of "
    "workloads are 0.1 to 23.5 % on 4, 8 and 16 servers: least to greatest of them, as the last "
    "columns here. A mean of predicted / actual over networks would let too fast and too slow "
    "cancel. Only other networks are on all numbers of servers.</p>"
)


def reuse_section(found: Reuse | None) -> str:
    """Return how reused models did; nothing where none was judged."""
    if found is None:
        return ""
    parts = (
        ("What reuse answers, by the paper's questions", "", _questions(found)),
        ("Which networks were measured", "", _workloads(found.workloads)),
        ("Errors by network, beside Ernest", _BESIDE, _beside(found)),
        ("Errors by number of servers", _SERVERS, _servers(found)),
    )
    shown = "".join(f"<h2>{title}</h2>{said}{shown}" for title, said, shown in parts)
    return f"{shown}{waiting_section(found.waiting, found.compared)}"


def _questions(found: Reuse) -> str:
    """Return the paper's questions (Table I), where they are answered, and what comes out."""
    rows = found.judged.overall.filter(pl.col("of").is_in(ABOUT))
    accurate = "; ".join(
        f"{row['of']}, {row['split']}: {percent(row['error_percent'])} (n = {row['n']})"
        for row in rows.iter_rows(named=True)
    )
    tell = found.regressions
    asked = (
        ("How accurate is it?", "Networks beside Ernest", accurate),
        (
            "What do kinds of regressors matter?",
            "Kinds of regressors",
            "" if tell is None else _errors(tell.kinds.overall.filter(split=RANDOM)),
        ),
        (
            "How much data does it need?",
            "Amounts of data",
            "" if tell is None else _errors(tell.amounts.overall),
        ),
        (
            "Does the size of the cluster matter?",
            "Numbers of servers",
            _by_size(found.judged),
        ),
        (
            "What do batches of workloads take?",
            _WAITING_TITLE,
            in_short(found.waiting, found.compared),
        ),
    )
    body = [[Cell(one, is_number=False, wraps=True) for one in row] for row in asked]
    head = ("question", "section", "mean absolute errors, or seconds")
    return f"{table(head, body)}<p>{noise(found)}</p>"


def _errors(rows: pl.DataFrame) -> str:
    """Return errors of groups in one line."""
    together = rows.group_by("of", maintain_order=True).agg(
        error=(pl.col("error_percent") * pl.col("n")).sum() / pl.col("n").sum()
    )
    return "; ".join(f"{name}: {percent(error)}" for name, error in together.iter_rows())


def _by_size(judged: Contest) -> str:
    """Return ours by number of servers: on other networks, which alone are on all of them."""
    rows = errors_by_servers(judged.by_servers.filter(of=ABOUT[0], split=OTHERS))
    said = "; ".join(
        f"W={row['workers']}: {percent(row['error_percent'])} (n = {row['n']})"
        for row in rows.iter_rows(named=True)
    )
    return f"{OTHERS}, {said}" if said else ""


def _workloads(workloads: pl.DataFrame) -> str:
    body = [
        [
            Cell(row["dnn"], is_number=False),
            Cell(row["family"], is_number=False),
            Cell(_KNOWN[row["known"]], is_number=False),
            Cell(str(row["runs"])),
            Cell(str(row["judged"])),
        ]
        for row in workloads.iter_rows(named=True)
    ]
    return table(("network", "family", "known", "scenarios measured", "judged"), body)


def _beside(found: Reuse) -> str:
    """Return errors of systems and of the paper's split, and predicted / actual by network."""
    several = [("the ledger, before it was measured", found.judged)]
    if found.regressions is not None:
        several.append(("a fit to other runs, after the fact", found.regressions.beside))
    body = [
        [
            Cell(row["of"], is_number=False),
            Cell(judged_by(row["split"]), is_number=False),
            Cell(origin, is_number=False),
            *figures(row),
        ]
        for origin, one in several
        for row in one.overall.sort("split", "error_percent").iter_rows(named=True)
    ]
    rows = select_drawn(found.judged.by_network, "of")
    shown = [
        (f"In the ledger: {split}", ratios_of(rows.filter(split=split), split))
        for split in rows["split"].unique().sort().to_list()
    ]
    if found.regressions is not None:
        rows = found.regressions.beside.by_network.filter(split=RANDOM)
        shown.append(("Random fifths", ratios_of(rows, judged_by(RANDOM))))
    errors = table(("by", "judged by", "forecast by", *HEAD), body)
    chosen = "".join(_chosen(row) for row in found.regressors.iter_rows(named=True))
    return f"{errors}<p>{noise(found)}</p>{chosen}{grid(shown)}"


def _chosen(row: Mapping[str, Any]) -> str:
    """Return which regressors a fit of predictddl chose, and whether they see the embedding."""
    seen, unseen = (_SEES.get(row[who], row[who]) for who in ("seen", "unseen"))
    answers = "predictddl itself" if row["answers"] == ABOUT[0] else row["answers"]
    errors = ", ".join(
        f"{name} {DASH if row[key] is None else f'{row[key]:.3f}'}"
        for key, name in _LEFT_OUT.items()
    )
    return (
        f"<p>Of predictddl's forecasts here, {row['n']} are of one fit. For networks that were "
        f"trained on it chose {seen}. For others it chose {unseen}, and {answers} answers. Mean "
        f"absolute errors of logarithms on families left out of this fit: {errors}. In any "
        "case the embedding tells how far a network is from those that were measured.</p>"
    )


def _servers(found: Reuse) -> str:
    judged = found.judged.by_servers.filter(pl.col("of").is_in(ABOUT))
    body = [
        [
            Cell(row["of"], is_number=False),
            Cell(row["split"], is_number=False),
            Cell(str(row["workers"])),
            Cell(str(row["networks"])),
            Cell(str(row["n"])),
            Cell(f"{row['lowest']:.2f} to {row['highest']:.2f}"),
            Cell(percent(row["error_percent"])),
            Cell(f"{row['least_percent']:.1f} to {percent(row['most_percent'])}"),
        ]
        for row in errors_by_servers(judged).iter_rows(named=True)
    ]
    shown = [
        (
            split,
            caption_figure(
                predictddl_figures.by_servers(judged.filter(split=split)),
                f"Mean absolute errors of networks by number of servers, {split}",
                "A mark for each network, a bar from the least to the greatest, and a line through "
                f"means of networks. Below {predictddl_figures.LEAST_PERCENT:g} % they stand at "
                "the edge.",
            ),
        )
        for split in judged["split"].unique().sort().to_list()
    ]
    head = (
        "by",
        "of",
        "servers",
        "networks",
        "n",
        "predicted / actual of networks",
        "mean absolute error",
        "of networks",
    )
    return f"{table(head, body)}<p>{noise(found)}</p>{grid(shown)}"


# What regressions on features of networks tell (Figs. 1, 2, 6, 10 and 11 of PredictDDL).


_BOXES = (
    "<p>All of these regressions see some of the round's runs and forecast the others: random "
    "fifths of all (the paper's 80/20), and families. No forecast here is in the ledger.</p>"
    "<p>Linear regression of epoch times on the network's name, the cluster and the batch (black "
    "box), and on numbers of layers and parameters too (gray box). An epoch is "
    f"{EPOCH_IMAGES:,} images. Log-linear regression on work, which the paper does not have, "
    "stands beside them. With a name for each network, "
    "sizes add nothing on networks in the fit: they differ where families are left out. "
    "The paper's gray box has errors that are less by 91.2 % (MobileNet-V3) and 99.5 % (VGG-16)."
    "</p>"
)
_FEATURES = (
    "<p>Second-order polynomials of one feature or several of a network, and of the cluster. In "
    "the paper, errors with embeddings are less by 96.4 % than with layers, and by 97.4 % than "
    "with parameters. Log-linear regression sees operations, activations and parameters.</p>"
)
_KINDS = (
    "<p>Kinds of regressors on embeddings and the cluster. Settings are those of the paper's grids "
    "that err least on networks left out of the runs that a fit sees; where a family is left out, "
    "of those of them that are in other quarters of the families. In the paper, polynomials and "
    "linear regression do well on both of its data sets.</p>"
)
_AMOUNTS = (
    "<p>Second-order polynomials on embeddings and the cluster, which see a half, two thirds and "
    "four fifths of the runs, drawn by a seed; each run is forecast once. In the paper, more data "
    "does not make errors less.</p>"
)


def regressions_section(found: Reuse | None) -> str:
    """Return what regressions tell; nothing where no reused model was judged."""
    if found is None or (tell := found.regressions) is None:
        return ""
    parts = (
        ("Whether sizes of a network help: black box and gray box", _BOXES, _boxes(tell)),
        ("What features of a network are worth", _FEATURES, _contest(tell.features)),
        ("Which kind of regressor does best", _KINDS, _contest(tell.kinds)),
        ("Whether more data helps", _AMOUNTS, _amounts(tell.amounts)),
    )
    noted = f"<p>{noise(found)}</p>"
    return "".join(f"<h2>{title}</h2>{said}{shown}{noted}" for title, said, shown in parts)


def _boxes(tell: PartialRegressions) -> str:
    """Return errors of boxes, and by number of servers, for what was and was not seen."""
    several = tell.of_two["workers"].n_unique() > 1
    splits = (RANDOM, FAMILIES) if several else ()
    drawn = [(judged_by(split), _by_servers(tell, split)) for split in splits]
    return f"{_table(tell.boxes)}<p></p>{_by_network(tell.boxes)}<p></p>{grid(drawn)}"


def _by_servers(tell: PartialRegressions, split: str) -> str:
    """Return errors of two networks by number of servers."""
    rows = tell.of_two.sort("dnn", maintain_order=True).filter(split=split)
    drawn = predictddl_figures.plot_panels(rows, "dnn", "rmse_s", "RMSE, seconds of an epoch")
    return caption_figure(
        drawn,
        f"Root mean square error of epochs by number of servers, {judged_by(split)}",
        "Two networks, each on a scale of its own: those that the paper shows where they were "
        "measured, else those on most numbers of servers. Where boxes agree, one line covers the "
        "other.",
    )


def _by_network(boxes: Contest) -> str:
    """Return root mean square errors network by network, random fifths being left out."""
    rows = boxes.by_network.filter(split=RANDOM)
    wide = rows.pivot("of", index=["dnn", "n"], values="rmse_s", maintain_order=True)
    names = boxes.overall["of"].unique(maintain_order=True).to_list()
    body = [
        [
            Cell(row["dnn"], is_number=False),
            Cell(str(row["n"])),
            *(Cell(_seconds(row[name])) for name in names),
        ]
        for row in wide.sort("dnn").iter_rows(named=True)
    ]
    return table(("network", "runs", *(f"RMSE, {name}" for name in names)), body)


def _seconds(value: float) -> str:
    """Return seconds of an epoch."""
    return f"{value:,.0f} s"


def _contest(contest: Contest) -> str:
    drawn = [
        (
            judged_by(split),
            ratios_of(contest.by_network.filter(split=split), judged_by(split)),
        )
        for split in (RANDOM, FAMILIES)
    ]
    return f"{_table(contest)}<p></p>{grid(drawn)}"


def _amounts(contest: Contest) -> str:
    drawn = [("Random splits", ratios_of(contest.by_network, "random splits"))]
    return f"{_table(contest)}<p></p>{grid(drawn)}"


def _table(contest: Contest) -> str:
    head = ("by", "judged by", *HEAD, "RMSE of epochs")
    body = [
        [
            Cell(row["of"], is_number=False),
            Cell(judged_by(row["split"]), is_number=False),
            *figures(row),
            Cell(_seconds(row["rmse_s"])),
        ]
        for row in contest.overall.iter_rows(named=True)
    ]
    return table(head, body)


# How long systems have others measure before they can answer (Fig. 13 of PredictDDL).


_WAITING_TITLE = "Time before an answer"
_COUNTS = {2: "2.6 x", 4: "5.1 x", 6: "7.7 x", 8: "10.3 x"}
"""Numbers of workloads in the paper's Fig. 13, and Ernest's time over PredictDDL's there."""
_WAITING = (
    "<p>A workload is a network that was judged, in the order of the study. Where forecasts by "
    "Ernest's own runs were judged, in any study, only the scenarios that it forecast count, for "
    "all systems. Measuring counts by the clock, one run after another, and what serves several "
    "workloads once. Ernest's own runs that no study measured count as a plan expects them (*).</p>"
)
_COMPARED = (
    "<p>Ernest measures each workload; PredictDDL learns once, from runs of other networks. Its "
    "fit, embeddings and forecasts are seconds of one core, measured once for these runs. Graphs "
    "were at hand: <code>stepcast bench predictddl</code> counts their tracing too. The embedder's "
    "training, once for a type of dataset, is not in it. The paper counts training and inference, "
    "and does not say whether the runs that PredictDDL learns from are in it.</p>"
)


def waiting_section(waiting: pl.DataFrame, compared: pl.DataFrame) -> str:
    """Return seconds and errors of each system by number of workloads, and Ernest's over ours.

    Args:
        waiting: rows of `forecasting.findings.collection_time`.
        compared: rows of `forecasting.findings.collection_time`.
    """
    if waiting.is_empty():
        return f"<h2>{_WAITING_TITLE}</h2><p>No system rests on runs of this round.</p>"
    ratios = f"{_COMPARED}{_ratios(compared)}" if compared.height else ""
    figures = grid([_measuring(waiting, compared), _collection_errors(waiting)])
    return f"<h2>{_WAITING_TITLE}</h2>{_WAITING}{_waited(waiting)}{ratios}<p></p>{figures}"


def in_short(waiting: pl.DataFrame, compared: pl.DataFrame) -> str:
    """Return how Ernest's time compares for all workloads in one line; else what each waits."""
    if compared.height:
        row = compared.row(-1, named=True)
        return (
            f"{row['workloads']} workloads: ernest {row['ernest_s']:,.0f} s, "
            f"{_times(row['ratio'])} as long as predictddl; {_times(row['ratio_with_runs'])} if "
            "the runs that it learns from count"
        )
    last = waiting.filter(pl.col("workloads") == pl.col("workloads").max())
    return "; ".join(
        f"{row['system']}{' *' if row['expected'] else ''}, {row['workloads']} workloads: "
        f"{row['measuring_s']:,.0f} s"
        for row in select_drawn(last, "system").iter_rows(named=True)
    )


def _measuring(waiting: pl.DataFrame, compared: pl.DataFrame) -> tuple[str, str]:
    """Return seconds by number of workloads; systems that wait alike are one line."""
    starred = waiting.with_columns(
        of=pl.when(pl.col("expected").any().over("system"))
        .then(pl.format("{} *", "system"))
        .otherwise("system")
    )
    alike = starred.group_by("of", maintain_order=True).agg("workloads", "measuring_s")
    names = alike.group_by("workloads", "measuring_s", maintain_order=True).agg(
        pl.when(pl.len() > 1)
        .then(pl.format("{} and {} alike", pl.col("of").first(), pl.len() - 1))
        .otherwise(pl.col("of").first())
        .alias("of")
    )
    ours = compared.select(
        "workloads", measuring_s="answering_s", of=pl.lit("predictddl: fit and forecasts only")
    )
    lines = pl.concat(
        one.select("of", "workloads", "measuring_s")
        for one in (names.explode("workloads", "measuring_s"), ours)
    )
    figure = predictddl_figures.by_workloads(lines, "measuring_s", "seconds before an answer")
    said = "Seconds before an answer by number of workloads"
    return "Measuring", caption_figure(figure, said, "Fewer are better. *: expected by a plan.")


def _collection_errors(waiting: pl.DataFrame) -> tuple[str, str]:
    rows = select_drawn(waiting, "system").rename({"system": "of"})
    figure = predictddl_figures.by_workloads(rows, "error_percent", "mean absolute error, %")
    said = "Mean absolute error by number of workloads"
    return "Errors", caption_figure(figure, said, "Of all judged scenarios of so many workloads.")


def _shown(counts: pl.Series) -> list[int]:
    """Return the paper's numbers of workloads and the largest, of those that there are."""
    there = set(counts)
    return sorted({*_COUNTS.keys() & there, max(there)})


def _waited(waiting: pl.DataFrame) -> str:
    shown = _shown(waiting["workloads"])
    body = []
    for (name,), one in waiting.group_by("system", maintain_order=True):
        seconds = dict(one.select("workloads", "measuring_s").iter_rows())
        star = " *" if one["expected"].any() else ""
        last = one.tail(1).row(0, named=True)
        body.append(
            [
                Cell(f"{name}{star}", is_number=False),
                *(Cell(f"{seconds[n]:,.0f} s" if n in seconds else DASH) for n in shown),
                Cell(percent(last["error_percent"])),
                Cell(str(last["n"])),
            ]
        )
    head = ("system", *(f"{n} workloads" for n in shown), "error, all of these", "n")
    return table(head, body)


def _ratios(compared: pl.DataFrame) -> str:
    shown = _shown(compared["workloads"])
    body = [
        [
            Cell(str(row["workloads"])),
            Cell(f"{row['ernest_s']:,.0f} s"),
            Cell(f"{row['answering_s']:,.1f} s"),
            Cell(f"{row['learning_s']:,.0f} s"),
            Cell(_times(row["ratio"])),
            Cell(_times(row["ratio_with_runs"])),
            Cell(_COUNTS.get(row["workloads"], DASH)),
        ]
        for row in compared.filter(pl.col("workloads").is_in(shown)).iter_rows(named=True)
    ]
    head = (
        "workloads",
        "Ernest's own runs",
        "PredictDDL's fit and forecasts",
        "runs it learns from",
        "Ernest over fit and forecasts",
        "over these and the runs",
        "in the paper",
    )
    return table(head, body)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2f} x"
