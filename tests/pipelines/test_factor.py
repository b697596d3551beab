"""Predictions never see what judges them: not even in rounds that were measured long ago."""

import shutil
from pathlib import Path
from random import Random

import polars as pl
import pytest
from dagster import AssetSelection, DagsterInstance

from pipelines.execution import resources
from pipelines.lineage import study_definitions
from tests.pipelines.ran import Ran
from tests.synthetic import FORECASTERS, PaperProbes, by_workers
from warehouse.records import Scenario
from warehouse.warehouse import Warehouse

BEFORE_MEASURING = AssetSelection.key_prefixes(
    *(["paper", group] for group in ("profiles", "fits", "predictions"))
)


def two_rounds(
    home: Path, study: Path, factors: Random | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[bytes, pl.DataFrame]:
    """Run a round, with every measurement multiplied by a factor, and predict the next one.

    Returns the forecasts of both rounds, and what was measured in the first.
    """

    def throughput(scenario: Scenario) -> float:
        return by_workers(scenario) * (factors.uniform(0.01, 100) if factors else 1)

    monkeypatch.setenv("STEPCAST_HOME", str(home))
    PaperProbes(throughput).install(monkeypatch)
    # Its report takes longest, and says nothing that counts here.
    run_study(study, AssetSelection.all() - AssetSelection.key_prefixes(["paper", "accuracy"]))
    return next_round(home, study)


def next_round(home: Path, study: Path) -> tuple[bytes, pl.DataFrame]:
    run_study(study, BEFORE_MEASURING)
    warehouse = Warehouse(home)
    ledger = pl.concat([warehouse.predictions("paper", repeat) for repeat in (1, 2)])
    assert ledger.height == 2 * len(FORECASTERS) * 4
    return figures(ledger), warehouse.accuracy().select("measured")


def run_study(study: Path, wanted: AssetSelection) -> None:
    defs = study_definitions(resources("loopback"), study)
    keys = sorted(wanted.resolve(defs.resolve_asset_graph()))
    with DagsterInstance.ephemeral() as instance:
        defs.resolve_job_def("paper").execute_in_process(instance=instance, asset_selection=keys)


def figures(ledger: pl.DataFrame) -> bytes:
    """Return what was forecast, byte for byte; ids name runs, which differ by nature."""
    columns = ["system", "model_version", "subject_id", "repeat", "metric", "value", "low", "high"]
    return ledger.select(columns).sort(columns).write_csv().encode()


@pytest.fixture(scope="module")
def plain(first_run: Ran, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, pl.DataFrame]:
    """Return the same of a study of which nothing was multiplied."""
    home = shutil.copytree(first_run.home, tmp_path_factory.mktemp("plain") / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(home))
        PaperProbes().install(patch)
        return next_round(home, first_run.study)


def test_factors_on_measurements_change_no_prediction(
    plain: tuple[bytes, pl.DataFrame],
    tmp_path: Path,
    study_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forecasts, measured = plain
    altered, otherwise = two_rounds(tmp_path / "altered", study_file, Random(7), monkeypatch)
    assert not measured.equals(otherwise)
    assert forecasts == altered


@pytest.mark.exhaustive
def test_a_factor_on_what_is_profiled_does_change_them(
    plain: tuple[bytes, pl.DataFrame],
    tmp_path: Path,
    study_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forecasts, measured = plain
    monkeypatch.setattr("tests.synthetic.LINK_BPS", 5e6)
    slower, otherwise = two_rounds(tmp_path / "slower", study_file, None, monkeypatch)
    assert measured.equals(otherwise)
    assert forecasts != slower
