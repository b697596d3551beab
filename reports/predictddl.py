"""Sections of the papers' page on PredictDDL: one model reused, regressions, collection time."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from forecasting.findings.cross_validation import (
    EPOCH_IMAGES,
    FAMILIES,
    RANDOM,
    Contest,
    errors_by_servers,
)
from forecasting.findings.predictddl import ABOUT, OTHERS, PartialRegressions, Reuse
from reports.html import Column, caption_figure, grid, table, text_column
from reports.plots import LINEAR, blank, legend_below, series, styled
from reports.wording import DASH, formatted, percent

TITLE = "Assogba et al., PredictDDL (2023)"
BESIDE: Mapping[str, str] = {
    "Which networks were measured": "section IV-A2",
    "Errors by network, beside Ernest": "section IV-B1",
    "Errors by number of servers": "section IV-B4",
    "Time before an answer": "section IV-B5",
}
"""Sections by title, and what of the paper's own figures stands there: place and quantity."""


def sections(reuse: Reuse) -> Iterator[str]:
    """Yield the sections of a round by the paper's questions; some are empty."""
    yield reuse_section(reuse)
    yield regressions_section(reuse)


# How forecasts of reused models read in tables, and look network by network.
#
# The paper's measure is predicted / actual: closer to 1 is better.


DRAWN = ("predictddl", "predictddl_paper", "log_linear", "ernest_pooled", "ernest")
"""Systems whose forecasts are drawn; tables have all."""
_JUDGED_BY = {
    RANDOM: "random parts, left out in turn",
    FAMILIES: "families, left out in turn",
}


def _judged_by(split: str) -> str:
    """Return what a forecast had not seen, in words."""
    return _JUDGED_BY.get(split, split)


def _noise(reuse: Reuse) -> str:
    """Return the sentence about the noise floor."""
    floor = percent(reuse.noise_floor) if reuse.noise_n else DASH
    n = f"n = {reuse.noise_n} scenarios in several rounds"
    return f"Noise floor of what was judged: {floor} ({n})."


def select_drawn(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return the rows of `DRAWN` in its order, so that colours are the same in all figures.

    Args:
        rows: with systems.
        by: the column that has them.
    """
    place = pl.col(by).replace_strict(DRAWN, range(len(DRAWN)), return_dtype=pl.Int32)
    return rows.filter(pl.col(by).is_in(DRAWN)).sort(place, maintain_order=True)


def ratios_figure(rows: pl.DataFrame, where: str) -> str:
    """Return predicted / actual of each network as a figure; `where` says what was not seen."""
    described = f"Predicted over actual epochs by network, {where}"
    beyond = rows.filter(~pl.col("ratio").is_between(1 / MOST_RATIO, MOST_RATIO)).height
    at_edge = (
        f" At the edge stand {beyond} beyond {MOST_RATIO:g} times or a {MOST_RATIO:g}th."
        if beyond
        else ""
    )
    caption = f"Mean of each network. Closer to 1 is better.{at_edge}"
    return caption_figure(ratios_plot(rows), described, caption)


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


def reuse_section(reuse: Reuse) -> str:
    """Return how reused models did."""
    return (
        f"<h2>What reuse answers, by the paper's questions</h2>{_questions(reuse)}"
        f"<h2>Which networks were measured</h2>{table(_WORKLOADS, reuse.workloads)}"
        f"<h2>Errors by network, beside Ernest</h2>{_BESIDE}{_beside(reuse)}"
        f"<h2>Errors by number of servers</h2>{_SERVERS}{_servers(reuse)}"
        f"{waiting_section(reuse.waiting, reuse.compared)}"
    )


_QUESTIONS = (
    text_column("question", wraps=True),
    text_column("section", wraps=True),
    text_column("mean absolute errors, or seconds", "answer", wraps=True),
)


def _questions(reuse: Reuse) -> str:
    """Return the paper's questions (Table I), where they are answered, and what comes out."""
    rows = reuse.judged.overall.filter(pl.col("of").is_in(ABOUT))
    accurate = "; ".join(
        f"{row['of']}, {row['split']}: {percent(row['error_percent'])} (n = {row['n']})"
        for row in rows.iter_rows(named=True)
    )
    kinds = amounts = ""
    if reuse.regressions is not None:
        kinds = _errors(reuse.regressions.kinds.overall.filter(split=RANDOM))
        amounts = _errors(reuse.regressions.amounts.overall)
    waited = in_short(reuse.waiting, reuse.compared)
    questions = (
        ("How accurate is it?", "Networks beside Ernest", accurate),
        ("What do kinds of regressors matter?", "Kinds of regressors", kinds),
        ("How much data does it need?", "Amounts of data", amounts),
        ("Does the size of the cluster matter?", "Numbers of servers", _by_size(reuse.judged)),
        ("What do batches of workloads take?", _WAITING_TITLE, waited),
    )
    answers = [dict(zip(("question", "section", "answer"), row, strict=True)) for row in questions]
    return f"{table(_QUESTIONS, answers)}<p>{_noise(reuse)}</p>"


def _errors(rows: pl.DataFrame) -> str:
    """Return errors of groups in one line."""
    together = rows.group_by("of", maintain_order=True).agg(
        error=(pl.col("error_percent") * pl.col("n")).sum() / pl.col("n").sum()
    )
    return "; ".join(f"{name}: {percent(error)}" for name, error in together.iter_rows())


def _by_size(judged: Contest) -> str:
    """Return ours by number of servers: on other networks, which alone are on all of them."""
    rows = errors_by_servers(judged.by_servers.filter(of=ABOUT[0], split=OTHERS))
    errors = "; ".join(
        f"W={row['workers']}: {percent(row['error_percent'])} (n = {row['n']})"
        for row in rows.iter_rows(named=True)
    )
    return f"{OTHERS}, {errors}" if errors else ""


_WORKLOADS = (
    text_column("network", "dnn"),
    text_column("family"),
    text_column("known", format=_KNOWN.__getitem__),
    Column("scenarios measured", "runs"),
    Column("judged"),
)
_SCORES = (
    Column("n"),
    Column("predicted / actual", "ratio", "{:.2f}".format),
    Column("mean absolute error", "error_percent", percent),
)
"""Of rows of `forecasting.findings.cross_validation.Contest`: the paper's measure beside ours."""
_FORECASTS = (
    text_column("by", "of"),
    text_column("judged by", "split", _judged_by),
    text_column("forecast by", "origin"),
    *_SCORES,
)


def _beside(reuse: Reuse) -> str:
    """Return errors of systems and of the paper's split, and predicted / actual by network."""
    contests = {"the ledger, before it was measured": reuse.judged}
    if reuse.regressions is not None:
        contests["a fit to other runs, after the fact"] = reuse.regressions.beside
    errors = pl.concat(
        contest.overall.sort("split", "error_percent").with_columns(origin=pl.lit(origin))
        for origin, contest in contests.items()
    )
    rows = select_drawn(reuse.judged.by_network, "of")
    figures = [
        (f"In the ledger: {split}", ratios_figure(rows.filter(split=split), split))
        for split in rows["split"].unique().sort().to_list()
    ]
    if reuse.regressions is not None:
        rows = reuse.regressions.beside.by_network.filter(split=RANDOM)
        figures.append(("Random fifths", ratios_figure(rows, _judged_by(RANDOM))))
    chosen = "".join(_chosen(row) for row in reuse.regressors.iter_rows(named=True))
    return f"{table(_FORECASTS, errors)}<p>{_noise(reuse)}</p>{chosen}{grid(figures)}"


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


_BY_SERVERS = (
    text_column("by", "of"),
    text_column("of", "split"),
    Column("servers", "workers"),
    Column("networks"),
    Column("n"),
    Column(
        "predicted / actual of networks", lambda row: f"{row['lowest']:.2f} to {row['highest']:.2f}"
    ),
    Column("mean absolute error", "error_percent", percent),
    Column(
        "of networks", lambda row: f"{row['least_percent']:.1f} to {percent(row['most_percent'])}"
    ),
)


def _servers(reuse: Reuse) -> str:
    judged = reuse.judged.by_servers.filter(pl.col("of").is_in(ABOUT))
    figures = [
        (
            split,
            caption_figure(
                servers_plot(judged.filter(split=split)),
                f"Mean absolute errors of networks by number of servers, {split}",
                "A mark for each network, a bar from the least to the greatest, and a line through "
                f"means of networks. Below {LEAST_PERCENT:g} % they stand at the edge.",
            ),
        )
        for split in judged["split"].unique().sort().to_list()
    ]
    errors = table(_BY_SERVERS, errors_by_servers(judged))
    return f"{errors}<p>{_noise(reuse)}</p>{grid(figures)}"


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


def regressions_section(reuse: Reuse) -> str:
    """Return what regressions tell; nothing where too few networks were measured."""
    if (regressions := reuse.regressions) is None:
        return ""
    noise = f"<p>{_noise(reuse)}</p>"
    return (
        "<h2>Whether sizes of a network help: black box and gray box</h2>"
        f"{_BOXES}{_boxes(regressions)}{noise}"
        "<h2>What features of a network are worth</h2>"
        f"{_FEATURES}{_contest(regressions.features)}{noise}"
        f"<h2>Which kind of regressor does best</h2>{_KINDS}{_contest(regressions.kinds)}{noise}"
        f"<h2>Whether more data helps</h2>{_AMOUNTS}{_amounts(regressions.amounts)}{noise}"
    )


_SECONDS = formatted("{:,.0f} s")
_CONTEST = (
    text_column("by", "of"),
    text_column("judged by", "split", _judged_by),
    *_SCORES,
    Column("RMSE of epochs", "rmse_s", _SECONDS),
)


def _boxes(regressions: PartialRegressions) -> str:
    """Return errors of boxes, and by number of servers, for what was and was not seen."""
    several = regressions.of_two["workers"].n_unique() > 1
    splits = (RANDOM, FAMILIES) if several else ()
    drawn = [(_judged_by(split), _by_servers(regressions, split)) for split in splits]
    return (
        f"{table(_CONTEST, regressions.boxes.overall)}<p></p>"
        f"{_by_network(regressions.boxes)}<p></p>{grid(drawn)}"
    )


def _by_servers(regressions: PartialRegressions, split: str) -> str:
    """Return errors of two networks by number of servers."""
    rows = regressions.of_two.sort("dnn", maintain_order=True).filter(split=split)
    drawn = panels_plot(rows, "dnn", "rmse_s", "RMSE, seconds of an epoch")
    return caption_figure(
        drawn,
        f"Root mean square error of epochs by number of servers, {_judged_by(split)}",
        "Two networks, each on a scale of its own: those that the paper shows where they were "
        "measured, else those on most numbers of servers. Where boxes agree, one line covers the "
        "other.",
    )


def _by_network(boxes: Contest) -> str:
    """Return root mean square errors network by network, random fifths being left out."""
    rows = boxes.by_network.filter(split=RANDOM)
    wide = rows.pivot("of", index=["dnn", "n"], values="rmse_s", maintain_order=True).sort("dnn")
    names = boxes.overall["of"].unique(maintain_order=True).to_list()
    errors = (Column(f"RMSE, {name}", name, _SECONDS) for name in names)
    return table((text_column("network", "dnn"), Column("runs", "n"), *errors), wide)


def _contest(contest: Contest) -> str:
    figures = [
        (
            _judged_by(split),
            ratios_figure(contest.by_network.filter(split=split), _judged_by(split)),
        )
        for split in (RANDOM, FAMILIES)
    ]
    return f"{table(_CONTEST, contest.overall)}<p></p>{grid(figures)}"


def _amounts(contest: Contest) -> str:
    figures = [("Random splits", ratios_figure(contest.by_network, "random splits"))]
    return f"{table(_CONTEST, contest.overall)}<p></p>{grid(figures)}"


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
    "were at hand. The embedder's "
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
    answering = compared.select(
        "workloads", measuring_s="answering_s", of=pl.lit("predictddl: fit and forecasts only")
    )
    lines = pl.concat(
        rows.select("of", "workloads", "measuring_s")
        for rows in (names.explode("workloads", "measuring_s"), answering)
    )
    figure = workloads_plot(lines, "measuring_s", "seconds before an answer")
    title = "Seconds before an answer by number of workloads"
    return "Measuring", caption_figure(figure, title, "Fewer are better. *: expected by a plan.")


def _collection_errors(waiting: pl.DataFrame) -> tuple[str, str]:
    rows = select_drawn(waiting, "system").rename({"system": "of"})
    figure = workloads_plot(rows, "error_percent", "mean absolute error, %")
    title = "Mean absolute error by number of workloads"
    return "Errors", caption_figure(figure, title, "Of all judged scenarios of so many workloads.")


def _shown(counts: pl.Series) -> list[int]:
    """Return the paper's numbers of workloads and the largest, of those that there are."""
    present = set(counts)
    return sorted({*_COUNTS.keys() & present, max(present)})


def _waited(waiting: pl.DataFrame) -> str:
    shown = {n: f"{n} workloads" for n in _shown(waiting["workloads"])}
    rows = []
    for (name,), part in waiting.group_by("system", maintain_order=True):
        seconds = dict(part.select("workloads", "measuring_s").iter_rows())
        rows.append(
            {
                **part.row(-1, named=True),
                "system": f"{name}{' *' if part['expected'].any() else ''}",
                **{title: seconds.get(n) for n, title in shown.items()},
            }
        )
    columns = (Column(title, format=_SECONDS) for title in shown.values())
    error = Column("error, all of these", "error_percent", percent)
    return table((text_column("system"), *columns, error, Column("n")), rows)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2f} x"


_RATIOS = (
    Column("workloads"),
    Column("Ernest's own runs", "ernest_s", _SECONDS),
    Column("PredictDDL's fit and forecasts", "answering_s", "{:,.1f} s".format),
    Column("runs it learns from", "learning_s", _SECONDS),
    Column("Ernest over fit and forecasts", "ratio", _times),
    Column("over these and the runs", "ratio_with_runs", _times),
    Column("in the paper", lambda row: _COUNTS.get(row["workloads"])),
)


def _ratios(compared: pl.DataFrame) -> str:
    shown = _shown(compared["workloads"])
    return table(_RATIOS, compared.filter(pl.col("workloads").is_in(shown)))


# Figures: ratios, errors by number of servers and of workloads (Figs. 1, 2, 6, 9 to 13).


MOST_RATIO = 100.0
"""Predicted / actual, or its inverse, that is drawn; else what errs little could not be told."""
LEAST_PERCENT = 0.1
"""Of errors by number of servers; the scale is one of logarithms."""
_APART = 0.15
"""How far kinds of forecasts stand beside each other, in servers."""
_INCHES_A_ROW = 0.22
_SHORT = 5.0
"""An axis whose upper end is less than so many times the lower one may have one of 1, 2 and 5."""
_MANY_DECADES = 3.5
"""Of an axis, on which 2 and 5 would be too much."""


@styled
def ratios_plot(rows: pl.DataFrame) -> Figure:
    """Plot predicted / actual, a row for each network and a mark for each kind of forecast.

    `rows` has of, dnn and ratio; what is beyond `MOST_RATIO` times either way stands at the edge.
    """
    figure, axes = blank()
    names = rows["dnn"].unique(maintain_order=True).to_list()
    figure.set_figheight(1.2 + _INCHES_A_ROW * len(names))
    axes.axvline(1, color=LINEAR, lw=1)
    for color, name, part in series(rows, "of"):
        places = [names.index(dnn) for dnn in part["dnn"]]
        shown = part["ratio"].clip(1 / MOST_RATIO, MOST_RATIO)
        axes.plot(shown, places, "o", ms=5, alpha=0.8, color=color, label=name)
    axes.set_yticks(range(len(names)), labels=names)
    axes.set(xlabel="predicted / actual", xscale="log", ylim=(len(names) - 0.5, -0.5))
    _plain_logarithms(axes.xaxis)
    legend_below(figure, axes)
    return figure


@styled
def servers_plot(rows: pl.DataFrame) -> Figure:
    """Plot absolute errors by number of servers: a mark for each network, a bar over all of them.

    `rows` has of, dnn, workers and error_percent; a line for each kind of forecast goes through
    means of networks. What is below `LEAST_PERCENT` stands at the edge.
    """
    figure, axes = blank()
    kinds = list(series(rows, "of"))
    for place, (color, name, part) in enumerate(kinds):
        beside = _APART * (place - (len(kinds) - 1) / 2)
        errors = part.with_columns(pl.col("error_percent").clip(lower_bound=LEAST_PERCENT))
        axes.plot(
            errors["workers"] + beside,
            errors["error_percent"],
            "o",
            ms=4,
            alpha=0.6,
            color=color,
            label=name,
        )
        of_all = (
            errors.group_by("workers")
            .agg(
                mean=pl.col("error_percent").mean(),
                least=pl.col("error_percent").min(),
                most=pl.col("error_percent").max(),
            )
            .sort("workers")
        )
        at = of_all["workers"] + beside
        axes.vlines(at, of_all["least"], of_all["most"], color=color, lw=1)
        axes.plot(at, of_all["mean"], "-", lw=1, color=color)
    servers = rows["workers"].unique().sort().to_list()
    axes.set(xlabel="servers", ylabel="mean absolute error, %", yscale="log", xticks=servers)
    axes.set_xlim(servers[0] - 0.5, servers[-1] + 0.5)
    _plain_logarithms(axes.yaxis)
    legend_below(figure, axes)
    return figure


@styled
def panels_plot(rows: pl.DataFrame, of: str, what: str, label: str) -> Figure:
    """Plot a figure by number of servers in panels side by side, a line for each kind of forecast.

    `rows` has of, workers and the columns `of`, which tells panels apart, and `what`.
    """
    names = rows[of].unique(maintain_order=True).to_list()
    figure = Figure(figsize=(6.0, 2.8), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, panel in zip(panels, names, strict=True):
        for place, (color, name, part) in enumerate(series(rows.filter(pl.col(of) == panel), "of")):
            # Later lines are thinner, so that equal ones show.
            width = max(3.0 - 1.5 * place, 1.0)
            axes.plot(part["workers"], part[what], "-o", ms=4, lw=width, color=color, label=name)
        axes.set(xlabel="servers", xticks=rows["workers"].unique().sort().to_list())
        axes.set_title(panel, fontsize=9)
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel(label)
    legend_below(figure, panels[0])
    return figure


@styled
def workloads_plot(rows: pl.DataFrame, what: str, label: str) -> Figure:
    """Plot a figure by number of workloads on a scale of logarithms, a line for each system.

    `rows` has of, workloads and the column `what`; where it is NULL there is no point.
    """
    figure, axes = blank()
    for color, name, part in series(rows.drop_nulls(what), "of"):
        axes.plot(part["workloads"], part[what], "-o", ms=4, color=color, label=name)
    axes.set(xlabel="workloads", ylabel=label, yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _plain_logarithms(axes.yaxis)
    legend_below(figure, axes)
    return figure


def _plain_logarithms(axis: Axis) -> None:
    """Mark 1, 2, 5, 10 … on an axis of logarithms; fewer on a long one, and more on a short one."""
    low, high = axis.get_view_interval()
    subs: tuple[float, ...] = (1.0, 2.0, 5.0)
    if high < low * _SHORT:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    elif high >= low * 10**_MANY_DECADES:
        subs = (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
