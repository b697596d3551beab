"""What Dagster is told of a home into which runs came without it."""

import shutil
from pathlib import Path

import pytest
from dagster import AssetKey, DagsterInstance
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from assets.landed import report_landed
from pipelines import dagster_history
from pipelines.cli.warehouse import tell_dagster
from pipelines.execution import resources
from pipelines.lineage import study_definitions
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
            AssetKey(["paper", "predictions", "linear"])
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


def figures_of(instance: DagsterInstance) -> dict[str, object]:
    """Return the errors that the table of accuracy has told, and of how many scenarios they are."""
    event = instance.get_latest_materialization_event(AssetKey(["paper", "accuracy", "table"]))
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    figures = {name: entry.value for name, entry in metadata.items()}
    return {name: value for name, value in figures.items() if name.startswith(("MAPE", "n: "))}


def test_what_was_loaded_has_the_errors_that_a_run_would_tell(first_run: Ran, copied: Path) -> None:
    with dagster_history.instance(first_run.home) as instance:
        of_run = figures_of(instance)
    assert {f"MAPE in percent: {system.name}" for system in FORECASTERS} <= of_run.keys()
    with dagster_history.instance(copied) as instance:
        report_landed(instance, copied)
        assert figures_of(instance) == pytest.approx(of_run)


def test_nothing_that_was_told_looks_older_than_what_it_rests_on(
    first_run: Ran, copied: Path
) -> None:
    graph = study_definitions(resources(), first_run.study).resolve_asset_graph()
    with dagster_history.instance(copied) as instance:
        report_landed(instance, copied)
        statuses = CachingStaleStatusResolver(
            instance=instance,
            asset_graph=graph,
            loading_context=LoadingContextForTest(instance),
        )
        keys = [key for key in graph.get_all_asset_keys() if instance.has_asset_key(key)]
        status_by_key = {key: statuses.get_status(key) for key in keys}
    assert len(status_by_key) >= 2 * len(FORECASTERS) + 3
    assert set(status_by_key.values()) == {StaleStatus.FRESH}


def test_what_a_run_has_told_is_not_told_again(finished: Ran) -> None:
    with dagster_history.instance(finished.home) as instance:
        assert report_landed(instance, finished.home) == 0


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
