"""Builders of landed runs, fits and predictions with figures a reader can check by hand."""

import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.made_run import made_fit, made_run, raw_table, served, worker_nodes
from warehouse.check import check
from warehouse.landing import land
from warehouse.ledger import FitRecord
from warehouse.publication import ensure_warehouse
from warehouse.records import Prediction, Purpose, Recommendation, Run, Scenario
from warehouse.sql import read_only
from warehouse.tables import SCHEMAS
from warehouse.warehouse import Warehouse

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

    @property
    def main(self) -> Path:
        return self.home / "warehouse.duckdb"

    def rows(self, sql: str) -> pl.DataFrame:
        return read_only(self.home, sql)

    def tamper(self, *statements: str) -> None:
        """Change the warehouse as no code of ours would."""
        with duckdb.connect(str(self.main)) as connection:
            for statement in statements:
                connection.execute(statement)

    def broken(self) -> list[str]:
        """Return what a check finds that is wrong."""
        return [finding.text for finding in check(self.home).findings if finding.broken]

    def scenario(
        self, workers: int = 1, dnn: str = "cnn", node_type: str = "emu.avx2.1c", batch: int = 8
    ) -> Scenario:
        nodes = worker_nodes(node_type, workers)
        return served(nodes, dnn=dnn, batch_size=batch, link_mbps=150)

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
        where = {"study": study, "host_id": host_id}
        run = self.run(run_id, scenario, "measurement", repeat=repeat, minute=minute, **where)
        known = [(METRIC, "1/s", value, window) for window, value in enumerate(values, start=1)]
        busy = (("idle_cpu_fraction", idle), ("stolen_cpu_fraction", stolen))
        known += [(name, "1", value, window) for *_, window in known for name, value in busy]
        sample = raw_table("sample", "metric unit value window", known)
        return self.land(run, scenario, {"sample": sample})

    def fit(self, *run_ids: str, system: str = "async_sgd") -> FitRecord:
        parameters = {"client_gap_s": 0.015}
        return made_fit(system, *run_ids, parameters=parameters, created_at=at(1))

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

    def recommendation(self, snapshot: str | None, **changes: object) -> Recommendation:
        fields = {
            "system": "async_sgd",
            "backend": "emulated",
            "job": {"dnn": "cnn"},
            "objective": "cost",
            "constraints": {"budget_usd": 3},
            "choice": {"node_type": "emu.avx2.1c", "count": 2, "cost_usd": 2.72},
            "alternatives": ({"node_type": "emu.server", "count": 2},),
            "price_snapshot": snapshot,
            "fit_ids": (self.fit("p1").fit_id,),
            "code_version": "v1",
            "made_at": at(3),
        }
        return Recommendation.model_validate(fields | changes)

    def forecast(
        self, values: Mapping[int, float], *, system: str = "async_sgd", **given: str
    ) -> FitRecord:
        """Record a fit to run `p1`, and its forecasts by the number of workers."""
        fit = self.fit("p1", system=system)
        self.warehouse.record(fits=[fit])
        self.warehouse.record(
            [
                self.prediction(fit, self.scenario(workers), value).model_copy(update=given)
                for workers, value in values.items()
            ]
        )
        return fit


def rewrite(folder: Path, table: str, **changes: object) -> None:
    """Write a table of a landed run with other values; one that it lacks gets a row of them."""
    file = folder / f"{table}.parquet"
    rows = pq.read_table(file).to_pylist() if file.exists() else [{"run_id": folder.name}]
    pq.write_table(pa.Table.from_pylist([row | changes for row in rows], SCHEMAS[table]), file)


@contextmanager
def limited(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as on a full disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


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


def fill_profiled(make: Maker) -> None:
    """Land a profile of one worker, `p1`."""
    make.profile("p1", make.scenario(1))
    make.warehouse.load()


def fill_fitted(make: Maker) -> None:
    """Land a profile of one worker, and fit to it."""
    fill_profiled(make)
    make.warehouse.record(fits=[make.fit("p1")])


@pytest.fixture
def profiled(built: Built, fresh: Maker) -> Maker:
    """Return a maker whose warehouse holds the profile `p1` of one worker."""
    return built(fill_profiled, fresh.home)


@pytest.fixture
def fitted(built: Built, fresh: Maker) -> Maker:
    """Return a maker whose warehouse holds a profile of one worker and its fit."""
    return built(fill_fitted, fresh.home)


def fill(make: Maker) -> None:
    """Land, fit, predict and measure once each."""
    fill_fitted(make)
    make.forecast({2: 2.0})
    make.measure("m1", make.scenario(2), [2.0, 2.2], minute=5)
    make.warehouse.load()


@pytest.fixture
def filled(built: Built, fresh: Maker) -> Maker:
    """Return a maker whose warehouse holds a profile, its fit, a prediction and a measurement."""
    return built(fill, fresh.home)
