"""The benchmark of Ceer, on a small history: what it measures, not how fast that was."""

from pathlib import Path

import polars as pl
import pytest

from benchmarks import ceer, operations
from models.ceer.operations import OBSERVED, observed_operations
from models.ceer.predictor import Ceer
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

SMALL = 2 * operations.STEP_OPERATIONS * len(operations.DNNS) * len(operations.NODE_TYPES)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with two runs of every DNN on every node type, and their fit."""
    home = tmp_path_factory.mktemp("bench")
    operations.fill(str(home), SMALL)
    assert ceer.fit(str(home)) > 0
    return home


@pytest.mark.exhaustive
def test_the_history_has_as_many_operations_as_asked(filled: Path) -> None:
    warehouse = Warehouse(filled)
    observed = warehouse.query("ceer_operations")
    assert observed["runs"].unique().to_list() == [2]
    assert (observed["count"] * observed["runs"]).sum() == SMALL
    assert observed["type"].n_unique() == len(operations.TYPES) >= 20


def test_sql_and_frames_observe_the_same(filled: Path) -> None:
    warehouse = Warehouse(filled)
    dnn, node_type = operations.DNNS[3], "cheap"
    by_sql = warehouse.query("ceer_operations", dnn=dnn, node_type=node_type)
    runs = (
        warehouse.visible("scenario")
        .filter(
            pl.col("canonical").str.contains(f'"{dnn}"'),
            pl.col("canonical").str.contains(f'"{node_type}"'),
        )["run_id"]
        .to_list()
    )
    assert len(runs) == 2
    tables = {
        name: warehouse.visible(table, runs)
        for name, table in {
            "runs": "run",
            "scenarios": "scenario",
            "operations": "operation",
            "shapes": "operation_shape",
            "times": "operation_time",
        }.items()
    }
    by_frames = observed_operations(**tables)
    same = by_sql.select([pl.col(name).cast(kind) for name, kind in OBSERVED.items()])
    key = ["type", "inputs", "outputs", "attributes"]
    assert same.select(key).sort(key).equals(by_frames.select(key).sort(key))
    for name in ("count", "mean_us", "median_us", "sd_us"):
        sql_values, frame_values = (frame.sort(key)[name].to_list() for frame in (same, by_frames))
        assert sql_values == pytest.approx(frame_values)


def test_the_fit_is_that_of_what_was_made_up(filled: Path) -> None:
    parameters = Ceer.from_json((filled / "ceer.json").read_text()).parameters
    assert parameters.dnns == operations.DNNS
    assert parameters.classes.slowest == "old"
    assert len(parameters.regressions) == len(operations.TYPES) * len(operations.NODE_TYPES)
    assert {
        regression.error is not None and regression.error < 0.05
        for regression in parameters.regressions
    } == {True}
    assert all(
        overhead.per_parameter_s == pytest.approx(1e-9, rel=0.2)
        for overhead in parameters.overheads
    )
    assert ceer.predict(str(filled)) > 0


@pytest.mark.exhaustive
def test_every_figure_is_measured() -> None:
    lines: list[str] = []
    figures = ceer.measure(SMALL, lines.append)
    assert figures.fit_rows == SMALL
    assert all(figure > 0 for figure in figures.to_dict().values())
    assert lines == [f"a history of {SMALL:,} operations", "fit", "predict"]


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(BadInput, match="--rows 1000 is too few to fit; take 120000 or more"):
        ceer.measure(1000)
