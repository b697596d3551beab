"""What Dagster is told of a home into which runs came without it."""

import shutil
from pathlib import Path

import dagster as dg
import pytest

from assets.landed import report_landed
from pipelines import dagster_history
from pipelines.cli.warehouse import tell_dagster
from tests.pipelines.ran import Ran
from tests.synthetic import FORECASTERS
from warehouse.history import studies_of
from warehouse.landing import run_folders
from warehouse.records import BadInput


def test_assets_of_what_came_without_a_run_are_told_once(copied: Path) -> None:
    with dagster_history.instance(copied) as instance:
        reported = report_landed(instance, copied)
        assert reported >= 2 * len(FORECASTERS) + 3
        forecasts = instance.get_latest_materialization_event(
            dg.AssetKey(["paper", "predictions", "linear"])
        )
        assert forecasts is not None
        assert forecasts.asset_materialization is not None
        metadata = forecasts.asset_materialization.metadata
        assert metadata["dagster/row_count"].value == 4
        assert metadata["counts"].value == "forecasts"
        assert report_landed(instance, copied) == 0


@pytest.fixture
def copied(first_run: Ran, tmp_path: Path) -> Path:
    """Return a home with the history of one that has run, of which Dagster has not heard."""
    home = tmp_path / "copy"
    home.mkdir()
    shutil.copy2(first_run.home / "history.duckdb", home)
    return home


def test_a_home_that_dagster_does_not_know_is_left_alone(first_run: Ran, tmp_path: Path) -> None:
    shutil.copy2(first_run.home / "history.duckdb", tmp_path)
    tell_dagster(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["history.duckdb"]
    with dagster_history.instance(tmp_path / "new") as instance, pytest.raises(BadInput):
        report_landed(instance, tmp_path / "new")


def test_studies_of_a_home_are_known_before_their_runs_are_loaded(
    first_run: Ran, tmp_path: Path
) -> None:
    assert studies_of(tmp_path) == set()
    folder = next(run_folders(first_run.home / "landing"))
    shutil.copytree(folder, tmp_path / "landing" / folder.name)
    assert studies_of(tmp_path) == {"paper"}
    assert studies_of(first_run.home) == {"paper"}
