"""A made-up history of this host: steps of four networks of PyTorch, and all-reduces."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from profilers.clusters import host_id
from studies.curve import Curve
from tests.models.srift import study as srift
from warehouse.landing import land
from warehouse.records import Run, Scenario
from warehouse.warehouse import Warehouse

START = datetime(2020, 1, 10, tzinfo=UTC)
WORKER = "emu.avx512.s15"
GFLOPS = {"small_cnn": 0.004, "alexnet": 0.1, "resnet18": 0.3, "vgg11": 0.9}
"""About what an image of 64 pixels takes; a step takes that and 20 ms."""


def build(home: Path) -> Path:
    """Return a home with a warehouse that has the history."""
    for dnn, gflops in GFLOPS.items():
        for workers in (1, 2, 4):
            trained = _curve(dnn).scenario(workers, "loopback")
            step_s = 0.02 * workers + 8 * gflops / 20
            rows = [("step_time_s", "s", place, step_s) for place in range(3)]
            sample = pl.DataFrame(
                rows,
                ["metric", "unit", "window", "value"],
                schema_overrides={"window": pl.Int16},
                orient="row",
            )
            run = _run("torch_throughput", f"{dnn}-{workers}", {}, trained)
            land(home / "landing", run, trained, {"sample": sample})
    for tables in srift.rings(mixes=(("fast",),)):
        (world_size,) = tables["allreduce"]["world_size"].unique()
        if tables["runs"]["run_id"][0].split("-")[2] == "200.0":
            about = {"worker": WORKER, "world_size": world_size, "devices_per_node": 1}
            _land(home, "allreduce", f"allreduce-{world_size}", about, tables)
    _land(home, "links", "links", {}, srift.links()[0])
    Warehouse(home).load()
    return home


def _land(
    home: Path, probe: str, name: str, about: dict[str, str | int], tables: dict[str, pl.DataFrame]
) -> None:
    rows = {
        srift.TABLES[kind]: frame.drop("run_id").with_columns(
            pl.col(column).replace("fast", WORKER)
            for column in frame.columns
            if column == "node_type"
        )
        for kind, frame in tables.items()
        if kind != "runs"
    }
    land(home / "landing", _run(probe, name, {**about, "link_mbps": None}, None), None, rows)


def _curve(dnn: str) -> Curve:
    return Curve(
        dnn=dnn,
        framework="pytorch",
        strategy="all_reduce",
        image_size=64,
        batch_size=8,
        worker=(WORKER,),
        link_mbps=1000,
        workers=(1, 2, 4),
    )


def _run(
    probe: str, run_id: str, config: dict[str, str | int | None], about: Scenario | None
) -> Run:
    return Run(
        run_id=run_id,
        probe=probe,
        purpose="profile",
        study="made_up",
        repeat=1,
        scenario_id=None if about is None else about.scenario_id,
        backend="loopback",
        status="ok",
        started_at=START,
        ended_at=START + timedelta(minutes=1),
        host_id=host_id("loopback"),
        host={"cpu": "x"},
        software={"torch": "2"},
        config=config,
    )
