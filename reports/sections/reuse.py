"""One model reused for networks that never ran (Figs. 9, 12, 13, Tables I, II of PredictDDL)."""

from collections.abc import Mapping

import polars as pl

from forecasting.findings.left_out import RANDOM
from forecasting.findings.reuse import ABOUT, Reuse
from reports import reuse_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.reuse_wording import HEAD, figures, judged_by, noise, ratios_of
from reports.wording import DASH, percent

_DRAWN = ("predictddl", "predictddl_paper", "log_linear", "ernest_pooled", "ernest")
"""Systems whose forecasts are drawn network by network; tables have all."""
_KNOWN: Mapping[str, str] = {
    "network": "trained on",
    "family": "its family is trained on",
    "neither": "of another family",
}
_BESIDE = (
    "<p>Forecasts that were in the ledger before the steps were measured, by networks that train "
    "scenarios have (<em>seen</em>) and others. The paper's split, random fifths of all runs, "
    "follows: it sees other runs of the networks that it is judged by. The paper has 1 to 4 % on "
    "CIFAR-10, 1 to 30 % on Tiny-ImageNet, 8 % in the mean; Ernest's error is 9.8 times that.</p>"
)
_SERVERS = (
    "<p>Forecasts that were in the ledger before the steps were measured. In the paper, errors are "
    "0.1 to 23.5 % on 4, 8 and 16 servers.</p>"
)
_WAITING = (
    "<p>A workload is a network that was judged; they come in the order of the study. Measuring "
    "counts by the clock, one run after another, and what serves several workloads once; Ernest's "
    "own runs as a plan expects them, where the study has none (*). The embedder's training, "
    "once for a type of dataset, and the answers themselves (<code>stepcast bench "
    "predictddl</code>) are not in it. In the paper, Ernest takes 2.6, 5.1, 7.7 and 10.3 times as "
    "long as PredictDDL for 2, 4, 6 and 8 workloads.</p>"
)


def section(found: Reuse | None) -> str:
    """Return how reused models did; nothing where none was judged."""
    if found is None:
        return ""
    parts = (
        ("Questions about reused models", "", _questions(found)),
        ("Workloads", "", _workloads(found.workloads)),
        ("Networks beside Ernest", _BESIDE, _beside(found)),
        ("Numbers of servers", _SERVERS, _servers(found)),
        ("Time before an answer", _WAITING, _waiting(found.waiting)),
    )
    return "".join(f"<h2>{title}</h2>{said}{shown}" for title, said, shown in parts)


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
            _errors(found.judged.by_workers.filter(pl.col("of") == ABOUT[0]), "workers"),
        ),
        ("What do batches of workloads take?", "Time before an answer", _most(found.waiting)),
    )
    body = [[Cell(one, is_number=False, wraps=True) for one in row] for row in asked]
    head = ("question", "section", "mean absolute errors, or seconds")
    return f"{table(head, body)}<p>{noise(found)}</p>"


def _errors(rows: pl.DataFrame, key: str = "of") -> str:
    """Return errors of groups in one line."""
    together = rows.group_by(key, maintain_order=True).agg(
        error=(pl.col("error_percent") * pl.col("n")).sum() / pl.col("n").sum()
    )
    what = "W=" if key == "workers" else ""
    return "; ".join(f"{what}{name}: {percent(error)}" for name, error in together.iter_rows())


def _most(waiting: pl.DataFrame) -> str:
    """Return seconds of all workloads by system."""
    last = waiting.filter(pl.col("workloads") == pl.col("workloads").max())
    some = last.filter(pl.col("system").is_in([*ABOUT, "ernest"]))
    return "; ".join(
        f"{row['system']}, {row['workloads']} workloads: {row['measuring_s']:,.0f} s"
        for row in some.iter_rows(named=True)
    )


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
        several.append(("a fit to other runs", found.regressions.beside))
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
    drawn = [
        (f"In the ledger: {split}", ratios_of(rows.filter(split=split), split))
        for rows in (found.judged.by_network.filter(pl.col("of").is_in(_DRAWN)),)
        for split in rows["split"].unique().sort().to_list()
    ]
    if found.regressions is not None:
        rows = found.regressions.beside.by_network.filter(split=RANDOM)
        drawn.append(("Random fifths", ratios_of(rows, judged_by(RANDOM))))
    shown = table(("by", "judged by", "forecast by", *HEAD), body)
    return f"{shown}<p>{noise(found)}</p>{grid(drawn)}"


def _servers(found: Reuse) -> str:
    rows = found.judged.by_workers.filter(pl.col("of").is_in(ABOUT))
    body = [
        [
            Cell(row["of"], is_number=False),
            Cell(row["split"], is_number=False),
            Cell(str(row["workers"])),
            *figures(row),
        ]
        for row in rows.sort("of", "split", "workers").iter_rows(named=True)
    ]
    drawn = [
        (
            split,
            captioned(
                reuse_plots.by_servers(rows.filter(split=split), "ratio", "predicted / actual"),
                f"Predicted over actual steps by number of servers, {split}",
                "Closer to 1 is better.",
            ),
        )
        for split in rows["split"].unique().sort().to_list()
    ]
    head = ("by", "networks", "servers", *HEAD)
    return f"{table(head, body)}<p>{noise(found)}</p>{grid(drawn)}"


def _waiting(waiting: pl.DataFrame) -> str:
    """Return seconds and errors of each system by number of workloads; systems that wait alike."""
    if waiting.is_empty():
        return "<p>No system rests on runs of this round.</p>"
    alike = waiting.group_by("system", maintain_order=True).agg("workloads", "measuring_s")
    names = alike.group_by("workloads", "measuring_s", maintain_order=True).agg(
        of=pl.when(pl.len() > 1)
        .then(pl.format("{} and {} alike", pl.col("system").first(), pl.len() - 1))
        .otherwise(pl.col("system").first())
    )
    lines = names.explode("workloads", "measuring_s")
    took = reuse_plots.by_workloads(lines, "measuring_s", "seconds of measuring")
    errors = waiting.rename({"system": "of"}).filter(pl.col("of").is_in(_DRAWN))
    figures_ = [
        (
            "Measuring",
            captioned(took, "Seconds of measuring by number of workloads", "Fewer are better."),
        ),
        (
            "Errors",
            captioned(
                reuse_plots.by_workloads(errors, "error_percent", "mean absolute error, %"),
                "Mean absolute error by number of workloads",
                "Of all judged scenarios of so many workloads.",
            ),
        ),
    ]
    return f"{_waited(waiting)}<p></p>{grid(figures_)}"


def _waited(waiting: pl.DataFrame) -> str:
    counts = waiting["workloads"].unique().sort()
    shown = sorted({*counts.filter(counts.is_in([2, 4, 6, 8])).to_list(), counts.to_list()[-1]})
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
