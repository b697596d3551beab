"""Predictions never see what judges them: not even in rounds that were measured long ago."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import dagster as dg
import polars as pl
import pytest

from pipelines.execution import resources
from pipelines.lineage import study_definitions
from tests.pipelines.ran import Ran
from tests.synthetic import FORECASTERS, PaperProbes
from warehouse.landed_files import seal
from warehouse.landing import landed_run, run_folders
from warehouse.warehouse import Warehouse

BEFORE_MEASURING = dg.AssetSelection.key_prefixes(
    *(["paper", group] for group in ("profiles", "fits", "predictions"))
)
Forecasts = Callable[[str, Callable[[], float]], bytes]


@pytest.fixture
def forecasts(first_run: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forecasts:
    """Return what forecasts a second round in a new home of this name.

    Every measurement of its first round is multiplied by a factor.
    """

    def made(name: str, factor: Callable[[], float]) -> bytes:
        home = tmp_path / name
        landing = Path(shutil.copytree(first_run.home / "landing", home / "landing"))
        measured = [
            path for path in run_folders(landing) if landed_run(path).purpose == "measurement"
        ]
        assert len(measured) == 4
        for folder in measured:
            rows = pl.read_parquet(folder / "sample.parquet")
            factors = pl.Series([factor() for _ in rows["value"]])
            altered = rows.with_columns(value=pl.col("value") * factors)
            altered.write_parquet(folder / "sample.parquet")
            seal(folder)
        assert len(Warehouse(home).load().loaded) == 7
        monkeypatch.setenv("STEPCAST_HOME", str(home))
        PaperProbes().install(monkeypatch)
        definitions = study_definitions(resources("loopback"), first_run.study)
        keys = sorted(BEFORE_MEASURING.resolve(definitions.resolve_asset_graph()))
        with dg.DagsterInstance.ephemeral() as instance:
            job = definitions.resolve_job_def("paper")
            job.execute_in_process(instance=instance, asset_selection=keys)
        ledger = Warehouse(home).query("predictions", study="paper", repeat=2)
        assert ledger.height == len(FORECASTERS) * 4
        # Byte for byte; ids name runs, which differ by nature.
        columns = ["system", "model_version", "subject_id", "metric", "value", "low", "high"]
        return ledger.select(columns).sort(columns).write_csv().encode()

    return made


def one() -> float:
    return 1.0


def test_factors_on_measurements_change_no_prediction(forecasts: Forecasts) -> None:
    assert forecasts("altered", partial(Random(7).uniform, 0.01, 100)) == forecasts("plain", one)


@pytest.mark.exhaustive
def test_a_factor_on_what_is_profiled_does_change_them(
    forecasts: Forecasts, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = forecasts("plain", one)
    monkeypatch.setattr("tests.synthetic.LINK_BPS", 5e6)
    assert forecasts("slower", one) != plain
