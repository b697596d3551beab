"""Operations as Ceer takes them: measured ones, the kernels behind them, and those of a network."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from models.profiled_run import read_scenario
from models.system import Tables
from networks.operation_graph import OperationGraph, canonical
from warehouse.records import BadInput

STEP = ("dnn", "image_size", "batch_size", "node_type")
"""What tells one profiled step from another."""
WORKS_ON = ("inputs", "outputs", "attributes", "input_bytes", "output_bytes")
OBSERVED = pl.Schema(
    {
        "dnn": pl.String,
        "image_size": pl.Int64,
        "batch_size": pl.Int64,
        "node_type": pl.String,
        "type": pl.String,
        "device": pl.String,
        "inputs": pl.String,
        "outputs": pl.String,
        "attributes": pl.String,
        "input_bytes": pl.Int64,
        "output_bytes": pl.Int64,
        "count": pl.Float64,
        "mean_us": pl.Float64,
        "median_us": pl.Float64,
        "sd_us": pl.Float64,
    }
)
"""Operations that are alike in all but their times: how many a step has, and the mean of theirs.

`observed_operations` makes such rows.
"""


def observed_operations(tables: Tables) -> pl.DataFrame:
    """Return rows of `OBSERVED` for the operations that workers computed.

    Operations that were traced at full speed take as much longer at their node's share as untraced
    steps did: by `step_time_s` over `unconfined_step_time_s`.

    Args:
        tables: run (rows of other runs in the others are left out), scenario, operation,
            operation_shape, operation_time and sample; operations without a shape keep NULL, those
            that nobody timed are left out.
    """
    runs, shapes = tables["run"], tables["operation_shape"]
    steps = runs.select("run_id", "scenario_id").join(_steps(tables["scenario"]), on="scenario_id")
    slower = pl.col("slower").fill_null(1.0)
    held, free = (
        pl.col("value").filter(pl.col("metric") == metric).mean()
        for metric in ("step_time_s", "unconfined_step_time_s")
    )
    slowness = tables["sample"].group_by("run_id").agg((held / free).alias("slower"))
    known = (
        tables["operation"]
        .filter(pl.col("resource") == "worker")
        .join(tables["operation_time"].select("run_id", "operation", *_TIMES), on=_KEY)
        .join(shapes.select(*_KEY, "inputs", "outputs", "attributes"), on=_KEY, how="left")
        .join(steps, on="run_id")
        .join(slowness, on="run_id", how="left")
        .with_columns(pl.col(name) * slower for name in _TIMES)
    )
    times_of = [pl.col(name).mean() for name in _TIMES]
    repeats = known.group_by(STEP).agg(pl.col("run_id").n_unique().alias("runs"))
    return (
        known.group_by([*STEP, "type", "device", *WORKS_ON])
        .agg(pl.len().alias("count"), *times_of)
        .join(repeats, on=STEP)
        .with_columns(pl.col("count") / pl.col("runs"))
        .select([pl.col(name).cast(kind) for name, kind in OBSERVED.items()])
        .sort(pl.all())
    )


def select_computation(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are computation, with canonical types.

    Communication is left out: its time is part of S. Where a type was timed both on an accelerator
    and on the host of the same node type, the host's rows only launch it and are left out too, as
    are operators of PyTorch on the host of a GPU: they say how many operators its kernels are of.

    Raises:
        BadInput: there are no rows, or operators of PyTorch were timed on hosts alone.
    """
    if rows.is_empty():
        raise BadInput(
            "operations to fit: expected operations with times, found none; profile with operation "
            "times first"
        )
    types = rows["type"].unique()
    renamed = rows.with_columns(
        [pl.col(name).cast(kind) for name, kind in OBSERVED.items()]
    ).with_columns(pl.col("type").replace_strict(types, [canonical(name) for name in types]))
    on_gpu = renamed.filter(pl.col("device") == "gpu")
    kept = renamed.filter(~pl.col("type").str.contains(_COMMUNICATION))
    on_host = pl.col("device").fill_null("host") == "host"
    host = kept.filter(on_host).join(on_gpu, on=["node_type", "type"], how="anti")
    nested = pl.col("type").str.contains("::", literal=True)
    unclear = host.filter(nested).join(on_gpu, on="node_type", how="anti")
    if not unclear.is_empty():
        raise BadInput(
            f"operations to fit: {unclear['type'][0]} on {unclear['node_type'][0]} was timed on "
            "the host with the operators that it calls, so that their sum is no step; expected "
            "what a GPU did"
        )
    kernels = kept.filter(~on_host)
    launched = by_operator(kernels.filter(nested), kept.filter(on_host, nested))
    computed = pl.concat([kernels.filter(~nested), launched, host.filter(~nested)])
    # Sums of the same rows in another order differ in their last digits.
    return computed.sort(list(OBSERVED))


def operation_sums(rows: pl.DataFrame) -> pl.DataFrame:
    """Return `STEP` and operations_s: the sum of mean times over the operations of each step."""
    seconds = (pl.col("count") * pl.col("mean_us")).sum() / 1e6
    return select_computation(rows).group_by(STEP).agg(seconds.alias("operations_s")).sort(STEP)


_KEY = ["run_id", "operation"]
_TIMES = ("mean_us", "median_us", "sd_us")
_COMMUNICATION = r"^(_?(Host)?(Send|Recv)$|Collective|Nccl|nccl)"


def _steps(scenarios: pl.DataFrame) -> pl.DataFrame:
    known = scenarios.unique("scenario_id", maintain_order=True)
    rows = [_step(*row) for row in known.select("scenario_id", "canonical").iter_rows()]
    schema = {"scenario_id": pl.String} | {name: OBSERVED[name] for name in STEP}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _step(scenario_id: str, text: str) -> Sequence[str | int]:
    scenario = read_scenario(text)
    load = scenario.workload
    workers = {group.node_type for group in scenario.nodes if group.role == "worker"}
    return scenario_id, load.dnn, load.image_size, load.batch_size, "+".join(sorted(workers))


# From the kernels that a GPU ran to the operators that launched them.
#
# A profiler times each kernel by itself and names the operator around its launch. How many
# operators there were is known from the host, which ran each of them once.


_WORKS_ON = ("type", "inputs", "attributes")


def by_operator(kernels: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Return a row per kind of operator: how many a step has, and the sum of its kernels' times.

    Kernels of which the host says nothing stay as they are.

    Args:
        kernels: `models.ceer.operations.OBSERVED` of a GPU.
        host: the same of its host.
    """
    key = [*STEP, *_WORKS_ON]
    calls = host.group_by(key).agg(pl.col("count").sum().alias("calls"))
    known = kernels.join(calls, on=key, how="left", nulls_equal=True, maintain_order="left")
    launched = known.filter(pl.col("calls").is_not_null())
    per_call = [(pl.col(name) * pl.col("count")).sum() / pl.col("calls").first() for name in _TIMES]
    others = [name for name in kernels.columns if name not in (*key, *_TIMES, "count")]
    operators = (
        launched.group_by(key, maintain_order=True)
        .agg(pl.col("calls").first().alias("count"), *per_call, pl.col(others).first())
        .select(kernels.columns)
    )
    return pl.concat([operators, known.filter(pl.col("calls").is_null()).drop("calls")])


# What a prediction needs to know of a DNN.


COLUMNS = ("type", "count", *WORKS_ON)


@dataclass(frozen=True)
class NetworkOperations:
    """A DNN's training step on one device: parameters, and operations with what they work on.

    `operations` has columns type, count (how many a step has), inputs, outputs, attributes (JSON as
    in table operation_shape), input_bytes and output_bytes.
    """

    dnn: str
    batch_size: int
    parameter_count: int
    operations: pl.DataFrame


def operations_of_graph(graph: OperationGraph) -> NetworkOperations:
    """Return the network whose graph was extracted; equal operations are counted together.

    Operations of which a shape could not be inferred keep NULL for what they work on.
    """
    rows = [
        (op.type, *(getattr(op, name) for name in WORKS_ON))
        if op.known
        else (op.type, None, None, op.attributes, None, None)
        for op in graph.operations
    ]
    schema = {"type": pl.String} | {name: OBSERVED[name] for name in WORKS_ON}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    counted = frame.group_by(frame.columns, maintain_order=True).agg(
        pl.len().cast(pl.Float64).alias("count")
    )
    return NetworkOperations(
        graph.dnn, graph.batch_size, graph.parameter_count, counted.select(COLUMNS)
    )


def operations_of_profile(
    rows: pl.DataFrame, dnn: str, batch_size: int, parameter_count: int
) -> NetworkOperations:
    """Return the network whose step was profiled, whatever its operations took.

    Args:
        rows: `models.ceer.operations.OBSERVED` of one step: one DNN, batch and node type.
        dnn: its name.
        batch_size: images per step and device.
        parameter_count: its trained parameters.
    """
    return NetworkOperations(
        dnn, batch_size, parameter_count, select_computation(rows).select(COLUMNS)
    )
