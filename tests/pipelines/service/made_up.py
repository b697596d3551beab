"""A history of made-up steps, from made-up graphs, that a model is fitted to in a second."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from models.predictddl.ghn import Embedder
from networks import extraction
from networks.kept_graphs import GraphCache
from networks.primitives import Primitive, PrimitiveGraph
from tests.made_run import made_run
from warehouse.landing import land
from warehouse.records import NodeGroup, Run, Scenario, Strategy, TrainingWorkload
from warehouse.warehouse import Warehouse

NODE_TYPE = "emu.avx2.s15"
LINK_MBPS = 500.0
SIDE = 64
LAYERS = {"resnet18": 18, "resnet50": 50, "vgg11": 11, "vgg19": 19, "squeezenet": 24, "alexnet": 8}
"""Networks of four families, and how many convolutions each is taken for."""
INVENTORY = {
    "inventory_dense_flops": 8e9,
    "inventory_depthwise_flops": 1e9,
    "inventory_memory_Bps": 2e9,
    "inventory_disk_Bps": 1e8,
}
INVENTORY_ROWS = [(metric, "1/s", 0, value) for metric, value in INVENTORY.items()]
FLOPS, ELEMENTS, PARAMETERS = 2e7, 40_000, 36_864
"""Of each convolution."""


def chain(kinds: Sequence[str], dnn: str = "") -> PrimitiveGraph:
    """Return a graph of primitives one after another."""
    nodes = tuple(Primitive(kind, PARAMETERS, FLOPS, ELEMENTS, 9) for kind in kinds)
    edges = tuple((place, place + 1) for place in range(len(nodes) - 1))
    return PrimitiveGraph(dnn, SIDE, nodes, edges, PARAMETERS * len(nodes))


def convolutions(layers: int) -> list[str]:
    """Return kinds of the primitives of a plain network."""
    return ["input", *["conv", "bias", "batch_norm"] * layers, "global_pool", "linear"]


def scenario(dnn: str, batch_size: int, workers: int) -> Scenario:
    """Return training of a network on nodes of the one type."""
    return Scenario(
        workload=TrainingWorkload(
            dnn=dnn, framework="pytorch", image_size=SIDE, batch_size=batch_size
        ),
        strategy=Strategy(kind="all_reduce", workers=workers),
        nodes=(
            NodeGroup(
                role="worker",
                node_type=NODE_TYPE,
                count=workers,
                cpu_share=0.15,
                memory_bytes=2**30,
            ),
        ),
        link_mbps=LINK_MBPS,
    )


def step_s(dnn: str, batch_size: int, workers: int) -> float:
    """Return a step: three passes at the speed of the inventory, and an all-reduce."""
    graph = extraction.primitive_graphs([(dnn, SIDE)])[dnn, SIDE]
    compute_s = 3 * 2 * graph.flops * batch_size / INVENTORY["inventory_dense_flops"]
    sent_s = 2 * (workers - 1) / workers * 4 * graph.parameter_count / (LINK_MBPS * 125_000)
    return compute_s + sent_s + 0.005


def graphs() -> dict[tuple[str, int], PrimitiveGraph]:
    """Return what stands for traced networks."""
    return {(dnn, SIDE): chain(convolutions(count), dnn) for dnn, count in LAYERS.items()}


def at_hand(graphs: Mapping[tuple[str, int], PrimitiveGraph]) -> GraphCache[Any, PrimitiveGraph]:
    """Return graphs as they are after they were extracted."""
    cache = GraphCache[Any, PrimitiveGraph]("primitives", PrimitiveGraph.of, at_hand=9, at_once=9)
    cache._latest.update(graphs)  # noqa: SLF001
    return cache


def install(home: Path, patch: pytest.MonkeyPatch) -> None:
    """Fill a home, with an embedder whose parameters are random."""
    patch.setattr(extraction, "_PRIMITIVES", at_hand(graphs()))
    (home / "embedders").mkdir()
    Embedder.untrained().write(home / "embedders" / "digits.safetensors")
    for place, (run, of, rows) in enumerate(_runs()):
        sample = pl.DataFrame(rows, ["metric", "unit", "window", "value"], orient="row")
        minutes = timedelta(minutes=place)
        when = {"started_at": run.started_at + minutes, "ended_at": run.ended_at + minutes}
        land(home / "landing", run.model_copy(update=when), of, {"sample": sample})
    Warehouse(home).load()


Rows = list[tuple[str, str, int, float]]


def add(home: Path, probe: str, of: Scenario | None, host_id: str, **changes: object) -> None:
    """Add a run of another host, a year newer than all others."""
    rows = INVENTORY_ROWS if of is None else [("step_time_s", "s", 0, 0.1)]
    made = _run(probe, f"{probe}-of-{host_id}", of)
    later = made.started_at + timedelta(days=365)
    run = made.model_copy(
        update={"host_id": host_id, "started_at": later, "ended_at": later, **changes}
    )
    sample = pl.DataFrame(rows, ["metric", "unit", "window", "value"], orient="row")
    land(home / "landing", run, of, {"sample": sample})
    Warehouse(home).load()


def _runs() -> Iterator[tuple[Run, Scenario | None, Rows]]:
    yield _run("inventory", "inventory-1", None), None, INVENTORY_ROWS
    for dnn in LAYERS:
        for batch_size, workers in ((4, 1), (12, 1), (4, 2), (12, 4)):
            of = scenario(dnn, batch_size, workers)
            seconds = step_s(dnn, batch_size, workers)
            name = f"steps-{dnn}-{batch_size}-{workers}"
            yield _run("torch_throughput", name, of), of, [("step_time_s", "s", 0, seconds)]


def _run(probe: str, run_id: str, of: Scenario | None) -> Run:
    return made_run(
        run_id,
        probe,
        scenario_id=of and of.scenario_id,
        host_id="host-1",
        config={"worker": NODE_TYPE},
    )
