"""Builders of landed runs, fits and predictions with figures a reader can check by hand."""

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.made_run import made_run
from warehouse.landing import land
from warehouse.ledger import FitRecord
from warehouse.publication import ensure_warehouse
from warehouse.records import (
    NodeGroup,
    Prediction,
    Purpose,
    Run,
    Scenario,
    Strategy,
    TrainingWorkload,
)
from warehouse.warehouse import Warehouse, read_only

METRIC = "throughput_steps_per_s"


def at(minute: float) -> datetime:
    """Return a point in time, minutes after a fixed one."""
    return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)


@dataclass(frozen=True)
class Maker:
    """Makes the things a warehouse holds, under one home."""

    home: Path

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.home)

    def rows(self, sql: str) -> pl.DataFrame:
        return read_only(self.home, sql)

    def scenario(
        self, workers: int = 1, dnn: str = "cnn", node_type: str = "emu.avx2.1c", batch: int = 8
    ) -> Scenario:
        nodes = (
            NodeGroup(role="worker", node_type=node_type, count=workers),
            NodeGroup(role="server", node_type="emu.server", count=1),
        )
        workload = TrainingWorkload(dnn=dnn, image_size=64, batch_size=batch)
        strategy = Strategy(workers=workers)
        return Scenario(workload=workload, strategy=strategy, nodes=nodes, link_mbps=150)

    def run(
        self,
        run_id: str,
        scenario: Scenario | None,
        purpose: Purpose,
        *,
        repeat: int = 1,
        minute: float = 0,
        study: str = "demo",
        host_id: str = "host-1",
    ) -> Run:
        return made_run(
            run_id,
            "tf_trace" if purpose == "profile" else "tf_throughput",
            at(minute),
            purpose=purpose,
            study=study,
            repeat=repeat,
            scenario_id=None if scenario is None else scenario.scenario_id,
            ended_at=at(minute + 0.5),
            host_id=host_id,
            software={"tensorflow": "2.21.0"},
            config={"windows": 2, "traced": True, "gauge_us": 200.0},
        )

    def land(
        self, run: Run, scenario: Scenario | None, tables: dict[str, pl.DataFrame] | None = None
    ) -> Path:
        return land(self.home / "landing", run, scenario, tables or {})

    def profile(self, run_id: str, scenario: Scenario, *, repeat: int = 1) -> Path:
        run = self.run(run_id, scenario, "profile", repeat=repeat)
        timing = {"step": [0, 0], "operation": [0, 1], "start_us": [0, 40], "duration_us": [40, 9]}
        return self.land(run, scenario, {"timing": pl.DataFrame(timing)})

    def measure(
        self,
        run_id: str,
        scenario: Scenario,
        values: Sequence[float],
        *,
        minute: float,
        repeat: int = 1,
        study: str = "demo",
        idle: float = 0.5,
        stolen: float = 0.0,
        host_id: str = "host-1",
    ) -> Path:
        """Land a measurement run with one throughput sample per window."""
        run = self.run(
            run_id,
            scenario,
            "measurement",
            repeat=repeat,
            minute=minute,
            study=study,
            host_id=host_id,
        )
        windows = list(range(1, len(values) + 1))
        count = len(windows)
        sample = {
            "metric": [METRIC] * count
            + ["idle_cpu_fraction"] * count
            + ["stolen_cpu_fraction"] * count,
            "unit": ["1/s"] * count + ["1"] * 2 * count,
            "window": windows * 3,
            "value": [*values, *[idle] * count, *[stolen] * count],
        }
        return self.land(run, scenario, {"sample": pl.DataFrame(sample)})

    def fit(self, *run_ids: str, system: str = "async_sgd") -> FitRecord:
        return FitRecord(
            system=system,
            model_version="1",
            parameters={"client_gap_s": 0.015},
            run_ids=run_ids,
            row_filter="traced steps",
            row_count=2,
            data_hash="abc",
            backend="emulated",
            host_id="host-1",
            code_version="v1",
            created_at=at(1),
        )

    def prediction(
        self,
        fit: FitRecord,
        scenario: Scenario,
        value: float,
        *,
        minute: float = 2,
        repeat: int = 1,
        low: float | None = None,
        high: float | None = None,
        host_id: str = "host-1",
    ) -> Prediction:
        return Prediction(
            system=fit.system,
            model_version=fit.model_version,
            fit_id=fit.fit_id,
            subject_id=scenario.scenario_id,
            backend="emulated",
            host_id=host_id,
            study="demo",
            repeat=repeat,
            metric=METRIC,
            unit="1/s",
            value=value,
            low=low,
            high=high,
            code_version="v1",
            made_at=at(minute),
        )


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warehouse.connection.PATIENCE_S", 0.2)


@pytest.fixture
def fresh(tmp_path: Path) -> Maker:
    """Return a maker under a home that does not exist yet."""
    return Maker(tmp_path / "home")


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty warehouse, made once because that takes longest."""
    main = tmp_path_factory.mktemp("empty") / "warehouse.duckdb"
    ensure_warehouse(main)
    return main


Built = Callable[[Callable[[Maker], object], Path], Maker]


@pytest.fixture(scope="session")
def built(empty: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return what makes a home that a function has filled: once, then by copying that one."""

    @cache
    def filled(fill: Callable[[Maker], object]) -> Path:
        make = Maker(tmp_path_factory.mktemp("built") / "home")
        make.home.mkdir()
        shutil.copy(empty, make.home)
        fill(make)
        return make.home

    def copied(fill: Callable[[Maker], object], home: Path) -> Maker:
        return Maker(Path(shutil.copytree(filled(fill), home)))

    return copied


@pytest.fixture
def make(fresh: Maker, empty: Path) -> Maker:
    """Return a maker of landed runs, fits and predictions under a home with an empty warehouse."""
    fresh.home.mkdir()
    shutil.copy(empty, fresh.home)
    return fresh


@pytest.fixture
def connection(empty: Path, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to an empty warehouse of this test."""
    with duckdb.connect(shutil.copy(empty, tmp_path)) as connection:
        yield connection


@pytest.fixture
def dead_pid() -> int:
    """Return the id of a process that has ended."""
    ended = subprocess.Popen(["true"])
    ended.wait(timeout=10)
    return ended.pid


def fill(make: Maker) -> None:
    """Land, fit, predict and measure once each."""
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    fit = make.fit("p1")
    make.warehouse.record_fit(fit)
    make.warehouse.record_predictions([make.prediction(fit, make.scenario(2), 2.0)])
    make.measure("m1", make.scenario(2), [2.0, 2.2], minute=5)
    make.warehouse.load()


@pytest.fixture
def filled(built: Built, fresh: Maker) -> Maker:
    """Return a maker whose warehouse holds a profile, its fit, a prediction and a measurement."""
    return built(fill, fresh.home)
