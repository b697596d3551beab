"""Raw tables of made-up profile runs, as a study for Ceer lands them."""

import json

import polars as pl

from models.ceer.operations import NetworkOperations
from tests.models.ceer.frames import MB
from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload

DNNS = ("a", "b", "c", "d", "e")
SLOWNESS = {"slow": 1.0, "fast": 0.25}
LINK_MBPS = 200.0
SHARE = 0.4
"""Operations are traced at full speed, steps take 1 / SHARE as long."""


def scenario(dnn: str, node_type: str, workers: int, link_mbps: float = LINK_MBPS) -> Scenario:
    """Synchronous training of one of the made-up DNNs."""
    return Scenario(
        workload=TrainingWorkload(dnn=dnn, image_size=32, batch_size=8),
        strategy=Strategy(kind="all_reduce", workers=workers),
        nodes=(NodeGroup(role="worker", node_type=node_type, count=workers, cpu_share=SHARE),),
        link_mbps=link_mbps,
    )


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
    shape = json.dumps([[size(load.dnn) * MB]])
    relus = pl.DataFrame(
        {
            "type": ["Relu"],
            "count": [2.0],
            "inputs": [shape],
            "outputs": [shape],
            "attributes": ["{}"],
            "input_bytes": [10**6 * size(load.dnn)],
            "output_bytes": [10**6 * size(load.dnn)],
        }
    )
    return NetworkOperations(load.dnn, load.batch_size, parameters(load.dnn), relus)


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
                run_tables = {
                    "run": pl.DataFrame(
                        {
                            "scenario_id": [measured.scenario_id],
                            "probe": ["tf_operations" if count == 1 else "tf_sync"],
                        }
                    ),
                    "scenario": pl.DataFrame(
                        {
                            "scenario_id": [measured.scenario_id],
                            "canonical": [measured.canonical_json()],
                        }
                    ),
                    "sample": _samples(dnn, node_type, count),
                }
                if count == 1:
                    run_tables |= _operations(dnn, node_type)
                for name, frame in run_tables.items():
                    parts.setdefault(name, []).append(frame.with_columns(run_id=pl.lit(run_id)))
    return {name: pl.concat(frames) for name, frames in parts.items()}


def _samples(dnn: str, node_type: str, workers: int) -> pl.DataFrame:
    held_s = step_s(dnn, node_type, workers)
    # Two windows, one as much too long as the other is too short.
    rows = [("step_time_s", 0.9 * held_s), ("step_time_s", 1.1 * held_s)]
    if workers == 1:
        rows.append(("unconfined_step_time_s", held_s * SHARE))
    return pl.DataFrame(rows, schema=["metric", "value"], orient="row")


def _operations(dnn: str, node_type: str) -> dict[str, pl.DataFrame]:
    (relu,) = network(scenario(dnn, node_type, 1).workload).operations.to_dicts()
    us = operations_s(dnn, node_type) / 2 * 1e6
    numbers = [0, 1]
    return {
        "operation": pl.DataFrame(
            {
                "operation": numbers,
                "type": ["Relu"] * 2,
                "resource": ["worker"] * 2,
                "device": pl.Series([None] * 2, dtype=pl.String),
                "input_bytes": [relu["input_bytes"]] * 2,
                "output_bytes": [relu["output_bytes"]] * 2,
            }
        ),
        "operation_shape": pl.DataFrame(
            {
                "operation": numbers,
                "inputs": [relu["inputs"]] * 2,
                "outputs": [relu["outputs"]] * 2,
                "attributes": ["{}"] * 2,
            }
        ),
        "operation_time": pl.DataFrame(
            {
                "operation": numbers,
                "mean_us": [0.5 * us, 1.5 * us],
                "median_us": [us] * 2,
                "sd_us": [0.0] * 2,
            }
        ),
        "dnn": pl.DataFrame(
            {"dnn": [dnn], "image_size": [32], "parameter_count": [parameters(dnn)]}
        ),
    }
