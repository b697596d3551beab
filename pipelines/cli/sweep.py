"""`stepcast sweep`: forecasts of a hundred thousand scenarios, on all cores."""

import fcntl
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.errors import Interrupted
from pipelines.cli.tables import print_rows, print_text, significant, tell
from warehouse.home import home
from warehouse.records import BadInput

if TYPE_CHECKING:
    import polars as pl

    from forecasting.sweep import Models, SweepFolder
    from forecasting.sweep_file import SweepFile
    from networks.own_model import OwnModel

_LINE_S = 30.0
_REASONS = 5
_OPTION = re.compile(r"--([a-z][a-z-]*)")


def sweep(
    file: Annotated[Path, typer.Argument(help="A sweep file: templates whose lists make grids.")],
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parts at a time; as many as cores, if not given.")
    ] = None,
) -> None:
    """Forecast a grid of scenarios, into Parquet files.

    Networks are those of the catalogue, or models of your own as `stepcast predict` takes them:
    hf:CONFIG of Hugging Face, or package.module:function. These are traced before parts begin.

    Each part is a file that is there whole or not at all: Ctrl-C and kills lose the parts under
    way, and the same command goes on. All parts ask the history as it was when the sweep began,
    and the rows are the same whoever makes them. Nothing is written to the ledger.

    Example: stepcast sweep studies/sweeps/aws_gpus.yaml
    """
    from forecasting.sweep import begin, folder_of
    from forecasting.sweep_file import count_scenarios, read_sweep
    from pipelines.cli.query import warehouse_here
    from pipelines.sweep import execute_sweep

    sweep_file = read_sweep(file)
    warehouse = warehouse_here()
    models = _trace_models(sweep_file, file)
    folder = folder_of(sweep_file, file, home(), models)
    folder.path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        begin(folder, sweep_file, warehouse, models)
        done, total = len(folder.parts) - len(folder.missing), len(folder.parts)
        there = f", of which {done:,} are there" if done else ""
        tell(f"{count_scenarios(sweep_file):,} scenarios in {total:,} parts{there}: {folder.path}")
        if done < total:
            with _progress(folder):
                try:
                    execute_sweep(folder, workers or len(os.sched_getaffinity(0)))
                except KeyboardInterrupt:
                    left = len(folder.missing)
                    raise Interrupted(
                        f"stopped; {total - left:,} of {total:,} parts are there, and the same "
                        "command goes on"
                    ) from None
        folder.forget_inputs()
    _show(folder)


def _trace_models(sweep_file: "SweepFile", file: Path) -> "Models":
    """Return the models of the user's own, traced as `stepcast predict` does.

    Raises:
        BadInput: naming the file and the model; there is none, or it is none of PyTorch.
    """
    from forecasting.sweep_file import is_own_model
    from pipelines.cli import own_workload

    own = {
        place: template
        for place, template in enumerate(sweep_file.scenarios)
        if is_own_model(template["dnn"])
    }
    try:
        for template in own.values():
            own_workload.check_options(
                template["dnn"],
                {"image_size": template.get("image_size")},
                template["sequence_length"],
            )
        return {place: _trace_model(template) for place, template in own.items()}
    except BadInput as error:
        in_fields = _OPTION.sub(lambda option: option[1].replace("-", "_"), str(error))
        raise BadInput(f"{file}: {in_fields}") from None


def _trace_model(template: Mapping[str, Any]) -> "OwnModel":
    from forecasting.sweep_file import Grid
    from pipelines.cli import own_workload
    from studies.curve import gpu_precisions

    target, length = template["dnn"], template["sequence_length"]
    curves = Grid(template).curves_of_values()
    batch_sizes = list(dict.fromkeys(curve.batch_size for curve in curves))
    precisions = gpu_precisions(curves)
    layouts = {curve.memory_format for curve in curves}
    options = {
        "framework": template.get("framework"),
        "memory_format": "channels_last" if "channels_last" in layouts else None,
    }
    with own_workload.tracing_model(target, batch_sizes, options, length, precisions) as traced:
        model = traced()
    if model.framework != "pytorch":
        raise BadInput(
            f"{target}: it makes a model of Keras, and sweeps are of PyTorch's; `stepcast predict` "
            "forecasts it"
        )
    words = f", {model.sequence_length} words," if model.sequence_length else ""
    tell(own_workload.OwnWorkload(f"{own_workload.as_asked(target)}{words}", model).in_words)
    return model


@contextmanager
def _alone(folder: "SweepFolder") -> Iterator[None]:
    """Hold a sweep, so that no other process works at it.

    Raises:
        BadInput: another one does.
    """
    lock = folder.path.with_name(f"{folder.path.name}.lock")
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"{folder.path}: another process is at this sweep") from None
        yield


@contextmanager
def _progress(folder: "SweepFolder") -> Iterator[None]:
    """Say now and then how many parts are there while the block runs, and at its end."""
    total, over = len(folder.parts), threading.Event()

    def follow() -> None:
        is_over = False
        while not is_over:
            is_over = over.wait(_LINE_S)
            tell(f"{total - len(folder.missing):,} of {total:,} parts")

    watcher = threading.Thread(target=follow, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _show(folder: "SweepFolder") -> None:
    """Print how much was forecast, what is cheapest, why the rest was refused, and where it is."""
    import polars as pl

    rows = folder.rows
    counted = rows.select(
        pl.len().alias("rows"),
        pl.col("scenario").n_unique().alias("scenarios"),
        pl.col("scenario").filter(pl.col("value").is_not_null()).n_unique().alias("forecast"),
    ).collect()
    ((row_count, scenarios, forecast),) = counted.rows()
    _print_cheapest(rows)
    refused = (
        rows.filter(pl.col("refusal").is_not_null())
        .group_by("refusal")
        .agg(pl.col("scenario").n_unique().alias("scenarios"))
        .sort("scenarios", "refusal", descending=[True, False])
        .head(_REASONS)
        .collect()
    )
    for reason, count in refused.rows():
        print_text(f"refused, {count:,} scenarios: {reason}")
    print_text(
        f"{forecast:,} of {scenarios:,} scenarios are forecast, in {row_count:,} rows: "
        f"{folder.path}/part-*.parquet (read_parquet of DuckDB, scan_parquet of Polars)"
    )


def _print_cheapest(rows: "pl.LazyFrame") -> None:
    """Print the cheapest way to train each network, at the newest prices."""
    import polars as pl

    cost = "usd_per_million_samples"
    cheapest = (
        rows.filter(pl.col(cost).is_not_null(), pl.col("fits").fill_null(True))
        .filter(pl.col("priced_on") == pl.col("priced_on").max())
        .sort(cost, "scenario", "system")
        .unique(["dnn", "image_size", "sequence_length"], keep="first", maintain_order=True)
        .sort("dnn", "image_size", "sequence_length")
        .collect()
    )
    if cheapest.is_empty():
        return
    shown = [_cells(row) for row in cheapest.to_dicts()]
    print_rows(shown, ("batch", "samples/s", "$/10⁶"))


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    words = f" {row['sequence_length']} words" if row["sequence_length"] else ""
    side = f" {row['image_size']}px" if row["image_size"] else words
    precision = "" if row["precision"] == "float32" else f" {row['precision']}"
    each, past = row["devices_per_node"], row["past_error_percent"]
    return {
        "cheapest": f"{row['dnn']}{side}{precision}",
        "nodes": f"{row['nodes']} {row['node_type']}" + (f" × {each}" if each > 1 else ""),
        "batch": f"{row['batch_size']}",
        "samples/s": f"{row['samples_per_s']:,.0f}",
        "$/10⁶": significant(row["usd_per_million_samples"]),
        "past error": "-" if past is None else f"{past:.0f} %, n = {row['past_n']}",
    }
