"""How much the parts of Srift err on what they were not fitted to (Table 6; section 5.3)."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from models.srift import allreduce, validation
from models.srift.probed import by_place
from reports.html_table import Cell, table
from reports.wording import percent
from studies import landed
from studies.parts import Part
from studies.rounds import Round

_PASSES = (
    "<p>Each batch size but the outermost is left out in turn, and forecast from the others. Means "
    "of absolute errors; the <em>floor</em> is the mean standard error of what was measured.</p>"
)
_HELD_OUT = (
    "<p>Batch sizes that were timed apart, after predictions, and forecast from the profile.</p>"
)
_ALLREDUCES = (
    "<p>Bus bandwidth of all-reduces, a tenth left out at a time: whole <em>configurations</em> "
    "(size, world, node types), or <em>rows</em>, as in the paper's 9/1 split. The <em>noise floor"
    "</em> is the error of forecasting each by the mean time of the other repeats of its "
    "configuration; <em>at least</em> that of the bandwidth that errs least for all of them.</p>"
)
_WORDS = {
    "small": "up to the MTU",
    "large": "above the MTU",
    "alpha_beta": "α–β",
    "trees": "trees",
    "rated": "rated",
}


def section(round_: Round, landing: Path) -> str:
    """Return tables of errors of passes and of all-reduces; nothing where neither was probed."""
    parts = (
        ("Passes", _PASSES, _passes(round_, landing)),
        ("Batch sizes", _HELD_OUT, _held_out(round_, landing)),
        ("All-reduces", _ALLREDUCES, _allreduces(round_, landing)),
    )
    return "".join(
        f"<h2>{title} that fits did not see</h2>{said}{shown}"
        for title, said, shown in parts
        if shown
    )


def _passes(round_: Round, landing: Path) -> str:
    profiled = landed.rows(round_, landing, "torch_compute", "compute", "profile")
    return _pass_table(
        {str(name): validation.pass_errors(rows) for (name,), rows in landed.by_name(profiled)}
    )


def _held_out(round_: Round, landing: Path) -> str:
    runs = round_.runs_of("torch_compute")
    profiles = {_network(part): run for part, run in runs.items() if part.profiles}
    return _pass_table(
        {
            part.name: validation.held_out_errors(
                landed.table(landing, profiles[_network(part)], "compute"),
                landed.table(landing, run, "compute"),
            )
            for part, run in runs.items()
            if not part.profiles and _network(part) in profiles
        }
    )


def _network(part: Part) -> tuple[object, ...]:
    """Return what a profile of passes and its held-out batches agree on."""
    assert part.scenario is not None
    return part.curve.dnn, part.curve.image_size, part.scenario.nodes


def _pass_table(errors: Mapping[str, pl.DataFrame]) -> str:
    """Return mean absolute errors, one line for each name that has some, and of all together."""
    found = {name: one for name, one in errors.items() if one.height}
    if not found:
        return ""
    found["all"] = pl.concat(found.values())
    body = []
    for name, one in found.items():
        means = one.select(pl.exclude("batch_size").abs().mean()).row(0)
        shown = (Cell(percent(value)) for value in means)
        body.append([Cell(name, is_number=False), *shown, Cell(str(one.height))])
    return table(("profile", "forward", "backward", "both", "floor", "batch sizes"), body)


def _allreduces(round_: Round, landing: Path) -> str:
    found = [landed.tables(landing, run) for run in round_.runs_of("allreduce").values()]
    if not found:
        return ""
    rows, runs, clusters = (
        pl.concat([one[name] for one in found]) for name in ("allreduce", "run", "cluster_node")
    )
    places, hardware = by_place(runs, rows, clusters)
    model = allreduce.fit(rows, places, hardware)
    errors = validation.allreduce_errors(model, rows, places)
    body = [
        [
            Cell(_WORDS[row["side"]], is_number=False),
            Cell(row["split"], is_number=False),
            Cell(_WORDS[row["model"]], is_number=False),
            Cell(percent(row["mape_percent"])),
            Cell(percent(row["noise_floor_percent"])),
            Cell(percent(row["least_percent"])),
            Cell(str(row["n"])),
        ]
        for row in errors.to_dicts()
    ]
    titles = "buffers", "left out", "model", "mean error", "noise floor", "at least", "all-reduces"
    return table(titles, body)
