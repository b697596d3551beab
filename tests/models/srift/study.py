"""The profile runs of a made-up study: two networks, two node types, links of two speeds."""

import json
from collections.abc import Mapping, Sequence
from itertools import product

import polars as pl

from tests.made_run import all_reduce, raw_table, worker_nodes
from warehouse.records import NodeGroup, Scenario

HOP_S = 1e-3
MIB = 2**20
SIZES = [4**power for power in range(1, 13)]
SECONDS: Mapping[str, float] = {"fast": 0.01, "slow": 0.02}
"""Forward pass of one sample; the backward pass takes twice as long, the update 0.1 s."""
LAYERS: Mapping[str, tuple[int, int]] = {
    "small_cnn": (4 * MIB, MIB),
    "alexnet": (16 * MIB, 4 * MIB),
}
"""Gradients of the two layers; the second one is there after half of the backward pass."""
LARGEST: Mapping[str, int] = {"fast": 48, "slow": 16}
SPEEDS_MBPS = (200.0, 400.0)
SLOWDOWN, HINDRANCE, SHARE = 0.25, 0.5, 0.5
MIXES = (("fast",), ("slow",), ("fast", "slow"))


def group(node_type: str, count: int = 1, batch_size: int | None = None) -> NodeGroup:
    """Return nodes of one of the types."""
    return worker_nodes(node_type, count, cpu_share=0.25, batch_size=batch_size)


def scenario(
    *groups: NodeGroup, dnn: str = "small_cnn", batch_size: int = 8, link_mbps: float = 200.0
) -> Scenario:
    """Return what trains on all of these nodes."""
    return all_reduce(*groups, link_mbps=link_mbps, dnn=dnn, batch_size=batch_size)


def seconds(world_size: int, size_bytes: int, link_mbps: float) -> float:
    """Return how long an all-reduce takes: a ring of 1 ms a hop at the full speed of the link."""
    wire_bytes = 2 * size_bytes * (world_size - 1) / world_size
    return 2 * (world_size - 1) * HOP_S + wire_bytes / (link_mbps * 1e6 / 8)


Run = dict[str, pl.DataFrame]


def tables(*trained: tuple[Scenario, float]) -> Run:
    """Return the raw tables; some scenarios were trained, with steps of so many s."""
    frames_by_name: dict[str, list[pl.DataFrame]] = {}
    for run in [*profiles(), slowdown(), *rings(), *links(), *trainings(trained)]:
        for name, table in run.items():
            frames_by_name.setdefault(name, []).append(table)
    return {name: pl.concat(frames, how="diagonal") for name, frames in frames_by_name.items()}


def profiles() -> list[Run]:
    """Return a run of torch_compute, with the largest batch, of each network and node type."""
    runs = []
    for (dnn, layers), (node_type, each_s) in product(LAYERS.items(), SECONDS.items()):
        most = LARGEST[node_type]
        batches = [(size, 0, 0, each_s * size, 2 * each_s * size, 0.1) for size in (1, 8, 16, most)]
        named = zip((0, 1), ("first", "second"), ("Conv2d", "Linear"), layers, strict=True)
        runs.append(
            _run(
                f"compute-{dnn}-{node_type}",
                None,
                scenario(group(node_type), dnn=dnn),
                compute=("batch_size trial rank forward_s backward_s update_s", batches),
                layer=(
                    "layer name type parameter_count gradient_bytes",
                    [(*told, size // 4, size) for *told, size in named],
                ),
                layer_time=(
                    "batch_size trial layer gradient_ready",
                    [(8, 0, 0, 1.0), (8, 0, 1, 0.5)],
                ),
                cluster_node=_nodes(node_type),
                sample=_samples(largest_batch_size=most),
            )
        )
    return runs


def slowdown() -> Run:
    """Return a run of slowdown of one network."""
    samples = _samples(
        backward_slowdown=SLOWDOWN, allreduce_slowdown=HINDRANCE, straggling_share=SHARE
    )
    return _run("slowdown", 200.0, scenario(group("fast", 2)), sample=samples)


def trainings(trained: Sequence[tuple[Scenario, float]]) -> list[Run]:
    """Return a run of torch_throughput of each scenario."""
    return [
        _run(
            f"trained-{index}",
            scenario.link_mbps,
            scenario,
            "torch_throughput",
            sample=_samples(step_time_s=step_s),
        )
        for index, (scenario, step_s) in enumerate(trained)
    ]


def rings(mixes: Sequence[tuple[str, ...]] = MIXES) -> list[Run]:
    """Return runs of allreduce of each mix, link speed and world size."""
    columns = "library world_size size_bytes concurrent trial rank seconds raw_seconds"
    runs = []
    for mix, speed, n in product(mixes, SPEEDS_MBPS, (2, 3, 4, 6)):
        rows = []
        for size in SIZES:
            took_s = seconds(n, size, speed)
            bus_Bps = 2 * size * (n - 1) / n / took_s
            rows.append(("gloo", n, size, 1, 0, 0, took_s, took_s, bus_Bps, 1500))
        runs.append(
            _run(
                f"rings-{'-'.join(mix)}-{speed}-{n}",
                speed,
                allreduce=(f"{columns} bus_bandwidth_Bps mtu_bytes", rows),
                cluster_node=_nodes(*mix),
            )
        )
    return runs


def links() -> list[Run]:
    """Return a run of links of each speed."""
    columns = "direction flows flow trial seconds bytes bandwidth_Bps"
    runs = []
    for speed in SPEEDS_MBPS:
        carried = int(speed * 1e6 / 8)
        rows = [(side, 1, 0, 0, 1.0, carried, float(carried)) for side in ("downlink", "uplink")]
        runs.append(_run(f"links-{speed}", speed, link=(columns, rows)))
    return runs


Rows = tuple[str, Sequence[tuple[object, ...]]]
"""Columns, and rows of them."""


def _run(
    run_id: str,
    link_mbps: float | None,
    scenario: Scenario | None = None,
    probe: str = "profiling",
    **more: Rows,
) -> Run:
    config = json.dumps({"link_mbps": link_mbps})
    known: dict[str, Rows] = {}
    if scenario is not None:
        row = (scenario.scenario_id, scenario.canonical_json())
        known["scenario"] = ("scenario_id canonical", [row])
    named = None if scenario is None else scenario.scenario_id
    known["run"] = ("scenario_id probe status config", [(named, probe, "ok", config)])
    return {
        name: raw_table(name, *rows).with_columns(run_id=pl.lit(run_id))
        for name, rows in {**known, **more}.items()
    }


def _samples(**metrics: float) -> Rows:
    return "metric unit value", [(name, "1", float(value)) for name, value in metrics.items()]


def _nodes(*node_types: str) -> Rows:
    rows = [
        (f"worker{index}", "worker", node_type, 0.25, 2**30, 0, None)
        for index, node_type in enumerate(node_types)
    ]
    return "node role node_type cores memory_bytes device_count device_name", rows
