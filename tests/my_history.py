"""A made-up history of a host: steps of four networks of PyTorch, and all-reduces."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from profilers.clusters import host_id
from profilers.steady.host import instruction_sets
from studies.curve import Curve
from tests.made_run import ddp_curve, made_run, raw_table
from tests.models.srift import study as srift
from warehouse.landing import land
from warehouse.records import Run, Scenario
from warehouse.warehouse import Warehouse

START = datetime(2020, 1, 10, tzinfo=UTC)


def possible(text: str) -> str:
    """Return what a page says, with node types that this host can be."""
    has_avx512 = "AVX512_CORE" in instruction_sets()
    return text if has_avx512 else text.replace("emu.avx512.", "emu.avx2.")


WORKER = possible("emu.avx512.s15")
GFLOPS = {"small_cnn": 0.004, "alexnet": 0.1, "resnet18": 0.3, "vgg11": 0.9}
"""About what an image of 64 pixels takes; a step takes that and 20 ms."""


def build(home: Path, host: str | None = None) -> Path:
    """Return a home with a warehouse that has the history, of this host or another."""
    train(home, host)
    for tables in srift.rings(mixes=(("fast",),)):
        (world_size,) = tables["allreduce"]["world_size"].unique()
        if tables["run"]["run_id"][0].split("-")[2] == "200.0":
            about = {"worker": WORKER, "world_size": world_size, "devices_per_node": 1}
            _land(home, "allreduce", f"allreduce-{world_size}", about, tables, host)
    _land(home, "links", "links", {}, srift.links()[0], host)
    Warehouse(home).load()
    return home


def train(home: Path, host: str | None = None, worker: str = WORKER, slower: float = 1.0) -> None:
    """Land steps of all networks on nodes of a type, which are so much slower."""
    for dnn, gflops in GFLOPS.items():
        for workers in (1, 2, 4):
            trained = curve_of(dnn, worker).scenario(workers, "loopback")
            step_s = slower * (0.02 * workers + 8 * gflops / 20)
            rows = [("step_time_s", "s", place, step_s) for place in range(3)]
            sample = raw_table("sample", "metric unit window value", rows)
            run = of_host("torch_throughput", f"{dnn}-{workers}-{worker}-{host}", {}, trained, host)
            land(home / "landing", run, trained, {"sample": sample})


def _land(
    home: Path,
    probe: str,
    name: str,
    about: dict[str, str | int],
    tables: dict[str, pl.DataFrame],
    host: str | None,
) -> None:
    rows = {
        kind: frame.drop("run_id").with_columns(
            pl.col(column).replace("fast", WORKER)
            for column in frame.columns
            if column == "node_type"
        )
        for kind, frame in tables.items()
        if kind != "run"
    }
    run = of_host(probe, name, {**about, "link_mbps": None}, None, host)
    land(home / "landing", run, None, rows)


def curve_of(dnn: str, worker: str) -> Curve:
    """Return the curve that the history has of a network."""
    return ddp_curve(worker, (1, 2, 4), dnn=dnn, image_size=64, link_mbps=1000)


def of_host(
    probe: str,
    run_id: str,
    config: dict[str, str | int | None],
    about: Scenario | None,
    host: str | None = None,
    study: str = "made_up",
) -> Run:
    """Return a run that fits may see, of this host or another."""
    return made_run(
        run_id,
        probe,
        START,
        study=study,
        scenario_id=None if about is None else about.scenario_id,
        backend="loopback",
        ended_at=START + timedelta(minutes=1),
        host_id=host or host_id("loopback"),
        config=config,
    )
