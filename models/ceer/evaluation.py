"""How wrong Ceer is on DNNs that it has not seen (section V), from profiles and steps alone.

The ledger judges predictions of measurements; this judges a way to fit before any.
"""

from collections.abc import Collection, Sequence
from itertools import combinations

import polars as pl

from models.ceer.operation_times import add_operation_types
from models.ceer.operations import STEP, operations_of_profile, select_computation
from models.ceer.parameters import Settings
from models.ceer.predictor import PREDICTED, Ceer, Without, fit
from warehouse.records import BadInput

LEFT_OUT = pl.Schema(
    {
        **PREDICTED,
        "measured_s": pl.Float64(),
        "without": pl.List(pl.String),
        "image_size": pl.Int64(),
        "error": pl.Float64(),
    }
)
"""Steps of DNNs that were left out: `without` names what was left out of predictions, sorted.

`error` is predicted / measured − 1, NULL where an operation was not seen.
"""


def leave_out(
    operations: pl.DataFrame,
    steps: pl.DataFrame,
    dnns: Sequence[Collection[str]] | None = None,
    *,
    settings: Settings | None = None,
    ablations: Sequence[Without] = (frozenset(),),
) -> pl.DataFrame:
    """Fit to all but some DNNs and predict the steps of those.

    The operations of a left-out DNN are known from its profile, not their times. Where nothing
    else was measured on a node type, its steps there are left out.

    Args:
        operations: `models.ceer.operations.OBSERVED`.
        steps: `models.ceer.overhead.STEPS`.
        dnns: which are left out together, fit by fit; None: each by itself.
        settings: how to fit.
        ablations: what is left out of predictions, each as `without` of `Ceer.predict`; of one fit.

    Returns:
        `LEFT_OUT`.

    Raises:
        BadInput: a DNN that is left out was not profiled, or none would be left to fit to.
    """
    known = set(operations["dnn"].unique())
    groups = [{dnn} for dnn in sorted(known)] if dnns is None else [set(group) for group in dnns]
    predictions = []
    for group in groups:
        if not (group <= known and known - group):
            raise BadInput(
                f"leave out {', '.join(sorted(group))}: expected some, not all, of the "
                f"profiled DNNs {', '.join(sorted(known))}"
            )
        left_out = pl.col("dnn").is_in(list(group))
        model = fit(
            operations=operations.filter(~left_out),
            steps=steps.filter(~left_out),
            settings=settings,
        )
        predictions += [
            _predicted(model, operations, rows, without)
            for rows in steps.filter(left_out).partition_by(STEP, maintain_order=True)
            if rows["node_type"][0] in model.node_types
            for without in ablations
        ]
    return pl.concat(predictions) if predictions else pl.DataFrame(schema=LEFT_OUT)


def operation_errors(model: Ceer, operations: pl.DataFrame) -> pl.DataFrame:
    """Return how wrong the times of single operations are, per type and node type.

    The paper's mean errors of heavy types on unseen CNNs are 2 to 10 % (section IV-B).

    Args:
        model: fitted to other DNNs.
        operations: `models.ceer.operations.OBSERVED` of DNNs that it has not seen.

    Returns:
        node_type, type, class, n (distinct operations), mean_absolute_error (relative), sum_error
        (of their sum in a step) and share of the time of all operations; the costliest first.
    """
    parts = []
    for rows in operations.partition_by(STEP, maintain_order=True):
        node_type = rows["node_type"][0]
        measured = add_operation_types(select_computation(rows), model.parameters.settings)
        network = operations_of_profile(rows, rows["dnn"][0], rows["batch_size"][0], 1)
        key = ["type", "inputs", "outputs", "attributes", "input_bytes", "output_bytes"]
        predicted = model.operations(network, [node_type]).select(*key, "class", "us").unique()
        parts.append(measured.join(predicted, on=key, nulls_equal=True))
    joined = pl.concat(parts).filter(pl.col("us").is_not_null(), pl.col("mean_us") > 0)
    spent, predicted_us = (pl.col("count") * pl.col(name) for name in ("mean_us", "us"))
    error = ((pl.col("us") - pl.col("mean_us")) / pl.col("mean_us")).abs()
    return (
        joined.group_by("node_type", "type", "class")
        .agg(
            pl.len().alias("n"),
            error.mean().alias("mean_absolute_error"),
            (predicted_us.sum() / spent.sum() - 1).alias("sum_error"),
            spent.sum().alias("us"),
        )
        .with_columns((pl.col("us") / pl.col("us").sum().over("node_type")).alias("share"))
        .drop("us")
        .sort(["node_type", "share", "type"], descending=[False, True, False])
    )


def rankings(judged: pl.DataFrame, noise: float = 0.0) -> pl.DataFrame:
    """Return, for each DNN, how many pairs of node types are predicted in the measured order.

    Args:
        judged: as `leave_out` returns it; node types are compared at the same devices and link.
        noise: relative difference of measured times up to which a pair says nothing.

    Returns:
        dnn, image_size, batch_size, devices, link_mbps, pairs, right and close (left out as noise).
    """
    same = ["dnn", "image_size", "batch_size", "devices", "link_mbps"]
    rows = []
    known = judged.filter(pl.col("step_s").is_not_null())
    for group in known.partition_by(same, maintain_order=True):
        times = group.select("measured_s", "step_s").rows()
        close = right = 0
        for (a, a_predicted), (b, b_predicted) in combinations(times, 2):
            if abs(a - b) <= noise * min(a, b):
                close += 1
            else:
                right += (a < b) == (a_predicted < b_predicted)
        pairs = len(times) * (len(times) - 1) // 2 - close
        rows.append((*group.select(same).row(0), pairs, right, close))
    counts = {"pairs": pl.Int64, "right": pl.Int64, "close": pl.Int64}
    schema = {name: judged.schema[name] for name in same} | counts
    return pl.DataFrame(rows, schema=schema, orient="row")


def _predicted(
    model: Ceer, operations: pl.DataFrame, rows: pl.DataFrame, without: Without
) -> pl.DataFrame:
    """Return predictions of steps that differ in devices and link only, beside what they took."""
    first = rows.row(0, named=True)
    of_step = [pl.col(name) == first[name] for name in STEP]
    profile = operations.filter(of_step)
    if profile.is_empty():
        raise BadInput(
            f"{first['dnn']} at {first['image_size']} px, batch {first['batch_size']} on "
            f"{first['node_type']}: expected a profile of its operations, found none; profile it"
        )
    network = operations_of_profile(
        profile, first["dnn"], first["batch_size"], first["parameter_count"]
    )
    setup = ["node_type", "devices", "link_mbps"]
    measured = rows.group_by(setup).agg(pl.col("step_s").mean().alias("measured_s"))
    predicted = model.predict(network, [first["node_type"]], without=without)
    error = (pl.col("step_s") - pl.col("measured_s")) / pl.col("measured_s")
    return (
        predicted.join(measured, on=setup, nulls_equal=True)
        .with_columns(
            pl.lit(sorted(without), pl.List(pl.String)).alias("without"),
            pl.lit(first["image_size"], pl.Int64).alias("image_size"),
            error.alias("error"),
        )
        .sort(setup)
    )
