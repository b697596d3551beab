"""Raw tables of made-up profile runs, as a study for Ceer lands them."""

from collections.abc import Mapping, Sequence

import polars as pl

from models.ceer.operations import COLUMNS, NetworkOperations
from tests.made_run import all_reduce, raw_table, worker_nodes
from tests.models.ceer.frames import MB, observed, operation
from warehouse.records import Scenario, TrainingWorkload

Rows = Mapping[str, tuple[str, Sequence[tuple[object, ...]]]]
"""By table, its columns and rows."""
DNNS = ("a", "b", "c", "d", "e")
SLOWNESS = {"slow": 1.0, "fast": 0.25}
LINK_MBPS = 200.0
SHARE = 0.4
"""Operations are traced at full speed, steps take 1 / SHARE as long."""


def scenario(dnn: str, node_type: str, workers: int, link_mbps: float = LINK_MBPS) -> Scenario:
    """Synchronous training of one of the made-up DNNs."""
    load = {"dnn": dnn, "framework": "tensorflow", "image_size": 32}
    nodes = worker_nodes(node_type, workers, cpu_share=SHARE)
    return all_reduce(nodes, link_mbps=link_mbps, **load)


def size(dnn: str) -> int:
    """A DNN's number: its ReLUs' megabytes, and the root of its millions of parameters."""
    return 1 + "abcdefgh".index(dnn)


def parameters(dnn: str) -> int:
    """How many are trained."""
    return 10**6 * size(dnn) ** 2


def operations_s(dnn: str, node_type: str) -> float:
    """Two ReLUs of a millisecond per megabyte on slow nodes at full speed."""
    return 2 * 1e-3 * size(dnn) * SLOWNESS[node_type]


def step_s(dnn: str, node_type: str, workers: int) -> float:
    """Operations at the share, 5 ms, and for every further node 2 ns per parameter."""
    computing_s = operations_s(dnn, node_type) / SHARE
    return computing_s + 0.005 + 2e-9 * parameters(dnn) * (workers - 1)


def network(load: TrainingWorkload) -> NetworkOperations:
    """Two ReLUs, as the graph says."""
    shape, size_bytes = ((size(load.dnn) * MB,),), 10**6 * size(load.dnn)
    relu = operation(load.dnn, "Relu", 0, count=2.0, inputs=shape, outputs=shape)
    relu |= {"input_bytes": size_bytes, "output_bytes": size_bytes}
    operations = observed(relu).select(COLUMNS)
    return NetworkOperations(load.dnn, load.batch_size, parameters(load.dnn), operations)


def tables(
    dnns: tuple[str, ...] = DNNS, workers: tuple[int, ...] = (1, 2)
) -> dict[str, pl.DataFrame]:
    """Return the raw tables."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for dnn in dnns:
        for node_type in SLOWNESS:
            for count in workers:
                run_id = f"{dnn}-{node_type}-{count}"
                measured = scenario(dnn, node_type, count)
                named, probe = measured.scenario_id, "tf_operations" if count == 1 else "tf_sync"
                known: Rows = {
                    "run": ("scenario_id probe", [(named, probe)]),
                    "scenario": ("scenario_id canonical", [(named, measured.canonical_json())]),
                    "sample": ("metric value", _samples(dnn, node_type, count)),
                    **(_operations(dnn, node_type) if count == 1 else {}),
                }
                for name, rows in known.items():
                    frame = raw_table(name, *rows).with_columns(run_id=pl.lit(run_id))
                    parts.setdefault(name, []).append(frame)
    return {name: pl.concat(frames) for name, frames in parts.items()}


def _samples(dnn: str, node_type: str, workers: int) -> list[tuple[str, float]]:
    held_s = step_s(dnn, node_type, workers)
    # Two windows, one as much too long as the other is too short.
    rows = [("step_time_s", 0.9 * held_s), ("step_time_s", 1.1 * held_s)]
    if workers == 1:
        rows.append(("unconfined_step_time_s", held_s * SHARE))
    return rows


def _operations(dnn: str, node_type: str) -> Rows:
    (relu,) = network(scenario(dnn, node_type, 1).workload).operations.to_dicts()
    us = operations_s(dnn, node_type) / 2 * 1e6
    each = (0, 1)
    sizes_bytes = relu["input_bytes"], relu["output_bytes"]
    return {
        "operation": (
            "operation type resource device input_bytes output_bytes",
            [(number, "Relu", "worker", None, *sizes_bytes) for number in each],
        ),
        "operation_shape": (
            "operation inputs outputs attributes",
            [(number, relu["inputs"], relu["outputs"], "{}") for number in each],
        ),
        "operation_time": (
            "operation mean_us median_us sd_us",
            [(number, (number + 0.5) * us, us, 0.0) for number in each],
        ),
        "dnn": ("dnn image_size parameter_count", [(dnn, 32, parameters(dnn))]),
    }
