"""The profile runs of a made-up study: two networks, two node types, links of two speeds."""

import json
from collections.abc import Mapping, Sequence
from itertools import product

import polars as pl

from tests.made_run import all_reduce, worker_nodes
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


def tables(*trained: tuple[Scenario, float]) -> dict[str, pl.DataFrame]:
    """Return the raw tables; some scenarios were trained, with steps of so many s."""
    frames_by_name: dict[str, list[pl.DataFrame]] = {}
    for run in [*profiles(), *slowdowns(), *rings(), *links(), *trainings(trained)]:
        for name, table in run.items():
            frames_by_name.setdefault(name, []).append(table)
    return {name: pl.concat(frames, how="diagonal") for name, frames in frames_by_name.items()}


def profiles() -> list[dict[str, pl.DataFrame]]:
    """Return a run of torch_compute, with the largest batch, of each network and node type."""
    runs = []
    for dnn, node_type in product(LAYERS, SECONDS):
        run_id = f"compute-{dnn}-{node_type}"
        alone = scenario(group(node_type), dnn=dnn)
        batches, each_s = [1, 8, 16, LARGEST[node_type]], SECONDS[node_type]
        runs.append(
            {
                **_run(run_id, None, alone),
                "compute": _frame(
                    run_id,
                    batch_size=batches,
                    trial=[0] * 4,
                    rank=[0] * 4,
                    forward_s=[each_s * size for size in batches],
                    backward_s=[2 * each_s * size for size in batches],
                    update_s=[0.1] * 4,
                ),
                "layer": _frame(
                    run_id,
                    layer=[0, 1],
                    name=["first", "second"],
                    type=["Conv2d", "Linear"],
                    parameter_count=[size // 4 for size in LAYERS[dnn]],
                    gradient_bytes=list(LAYERS[dnn]),
                ),
                "layer_time": _frame(
                    run_id,
                    batch_size=[8, 8],
                    trial=[0, 0],
                    layer=[0, 1],
                    gradient_ready=[1.0, 0.5],
                ),
                "cluster_node": _nodes(run_id, [node_type]),
                "sample": _sample(run_id, "largest_batch_size", LARGEST[node_type]),
            }
        )
    return runs


def slowdowns() -> list[dict[str, pl.DataFrame]]:
    """Return a run of slowdown of one network."""
    two_nodes = scenario(group("fast", 2))
    samples = [
        _sample("slowdown", "backward_slowdown", SLOWDOWN),
        _sample("slowdown", "allreduce_slowdown", HINDRANCE),
        _sample("slowdown", "straggling_share", SHARE),
    ]
    return [{**_run("slowdown", 200.0, two_nodes), "sample": pl.concat(samples)}]


def trainings(trained: Sequence[tuple[Scenario, float]]) -> list[dict[str, pl.DataFrame]]:
    """Return a run of torch_throughput of each scenario."""
    return [
        {
            **_run(f"trained-{index}", scenario.link_mbps, scenario, "torch_throughput"),
            "sample": _sample(f"trained-{index}", "step_time_s", step_s),
        }
        for index, (scenario, step_s) in enumerate(trained)
    ]


def rings(mixes: Sequence[tuple[str, ...]] = MIXES) -> list[dict[str, pl.DataFrame]]:
    """Return runs of allreduce of each mix, link speed and world size."""
    runs = []
    for mix, speed, world_size in product(mixes, SPEEDS_MBPS, (2, 3, 4, 6)):
        run_id = f"rings-{'-'.join(mix)}-{speed}-{world_size}"
        took = [seconds(world_size, size, speed) for size in SIZES]
        wire = [2 * size * (world_size - 1) / world_size for size in SIZES]
        count = len(SIZES)
        rows = _frame(
            run_id,
            library=["gloo"] * count,
            world_size=[world_size] * count,
            size_bytes=SIZES,
            concurrent=[1] * count,
            trial=[0] * count,
            rank=[0] * count,
            seconds=took,
            raw_seconds=took,
            bus_bandwidth_Bps=[wire_bytes / s for wire_bytes, s in zip(wire, took, strict=True)],
            mtu_bytes=[1500] * count,
        )
        runs.append({**_run(run_id, speed), "allreduce": rows, "cluster_node": _nodes(run_id, mix)})
    return runs


def links() -> list[dict[str, pl.DataFrame]]:
    """Return a run of links of each speed."""
    runs = []
    for speed in SPEEDS_MBPS:
        run_id, speed_Bps = f"links-{speed}", speed * 1e6 / 8
        rows = [(side, 1, 0, 0, 1.0, int(speed_Bps), speed_Bps) for side in ("downlink", "uplink")]
        names = ["direction", "flows", "flow", "trial", "seconds", "bytes", "bandwidth_Bps"]
        link = pl.DataFrame(rows, schema=names, orient="row").with_columns(run_id=pl.lit(run_id))
        runs.append({**_run(run_id, speed), "link": link})
    return runs


def _run(
    run_id: str,
    link_mbps: float | None,
    scenario: Scenario | None = None,
    probe: str = "profiling",
) -> dict[str, pl.DataFrame]:
    run = _frame(
        run_id,
        scenario_id=[None if scenario is None else scenario.scenario_id],
        probe=[probe],
        status=["ok"],
        config=[json.dumps({"link_mbps": link_mbps})],
    ).with_columns(pl.col("scenario_id").cast(pl.String))
    if scenario is None:
        return {"run": run}
    canonical = _frame(
        run_id, scenario_id=[scenario.scenario_id], canonical=[scenario.canonical_json()]
    )
    return {"run": run, "scenario": canonical}


def _sample(run_id: str, metric: str, value: float) -> pl.DataFrame:
    return _frame(run_id, metric=[metric], unit=["1"], value=[float(value)])


def _nodes(run_id: str, node_types: Sequence[str]) -> pl.DataFrame:
    return _frame(
        run_id,
        node=[f"worker{index}" for index in range(len(node_types))],
        role=["worker"] * len(node_types),
        node_type=list(node_types),
        cores=[0.25] * len(node_types),
        memory_bytes=[2**30] * len(node_types),
        device_count=[0] * len(node_types),
        device_name=[None] * len(node_types),
    ).with_columns(pl.col("device_name").cast(pl.String))


def _frame(run_id: str, **columns: Sequence[object]) -> pl.DataFrame:
    return pl.DataFrame(columns, strict=False).with_columns(run_id=pl.lit(run_id))
