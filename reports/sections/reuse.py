"""One model reused for networks that never ran (Figs. 9, 12, 13, Tables I, II of PredictDDL)."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from forecasting.findings.left_out import RANDOM, Contest, across_networks
from forecasting.findings.reuse import ABOUT, OTHERS, Reuse
from reports import reuse_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.reuse_wording import HEAD, drawn, figures, judged_by, noise, ratios_of
from reports.sections import waiting
from reports.wording import DASH, percent

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
"""Regressors by their names in `models.predictddl.learned`."""
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


def section(found: Reuse | None) -> str:
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
    return f"{shown}{waiting.section(found.waiting, found.compared)}"


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
            waiting.TITLE,
            waiting.in_short(found.waiting, found.compared),
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
    rows = across_networks(judged.by_servers.filter(of=ABOUT[0], split=OTHERS))
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
    rows = drawn(found.judged.by_network, "of")
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
        for row in across_networks(judged).iter_rows(named=True)
    ]
    shown = [
        (
            split,
            captioned(
                reuse_plots.by_servers(judged.filter(split=split)),
                f"Mean absolute errors of networks by number of servers, {split}",
                "A mark for each network, a bar from the least to the greatest, and a line through "
                f"means of networks. Below {reuse_plots.LEAST_PERCENT:g} % they stand at the edge.",
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
