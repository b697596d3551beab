"""What a round of training by operations measured, as Ceer takes it."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from models.ceer.fit import PROBES, measured_steps
from models.ceer.operations import STEP, observed_operations, operations_of_profile
from models.ceer.parameters import Parameters
from models.ceer.predictor import PREDICTED, Without, fit, predict_steps
from profilers.clusters.node_types import node_types
from studies import run_tables
from studies.rounds import Round
from warehouse.records import BadInput

ABLATIONS: tuple[Without, ...] = (frozenset(), frozenset({"light"}), frozenset({"overhead"}))
"""What section V leaves out of predictions: nothing, light and CPU operations, or S."""


@dataclass(frozen=True)
class CeerMeasurements:
    """Operations (`models.ceer.operations.OBSERVED`) and steps (`models.ceer.overhead.STEPS`).

    Of all DNNs of the round, those included that predictors did not see, `unseen`.
    """

    operations: pl.DataFrame
    steps: pl.DataFrame
    unseen: tuple[str, ...]

    @property
    def fitted(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Operations and steps of the DNNs that predictors saw."""
        is_seen = ~pl.col("dnn").is_in(list(self.unseen))
        return self.operations.filter(is_seen), self.steps.filter(is_seen)

    @cached_property
    def forecasts(self) -> pl.DataFrame:
        """Steps of the unseen DNNs, forecast from their profiled operations by a fit to the others.

        As `leave_out` returns them, for each of `ABLATIONS`.
        """
        return leave_out(self.operations, self.steps, [self.unseen], ablations=ABLATIONS)

    @property
    def whole_forecasts(self) -> pl.DataFrame:
        """Those of which nothing was left out."""
        return self.forecasts.filter(pl.col("without").list.len() == 0)


def read_measurements(round_: Round, landing: Path) -> CeerMeasurements | None:
    """Return what has landed of a round; None where no operations of DNNs to fit to have.

    Of DNNs that are fitted at one size and judged at another, only the first is in it.
    """
    if not round_.runs_of(*(timing for timing, _ in PROBES.values())):
        return None
    fitted = {curve.dnn for curve in round_.study.curves if not curve.is_judged}
    tables = _tables(round_, landing, fitted)
    if "operation_time" not in tables:
        return None
    operations, steps = observed_operations(tables), measured_steps(tables)
    known = operations["dnn"].unique().sort()
    if not fitted & set(known):
        return None
    profiled = steps.join(operations, on=STEP, how="semi")
    return CeerMeasurements(operations, profiled, tuple(dnn for dnn in known if dnn not in fitted))


def usd_per_hour(measured: CeerMeasurements) -> Mapping[str, float]:
    """Return the price of a device of each emulated node type; others have none here."""
    known = node_types()
    prices = {}
    for name in measured.operations["node_type"].unique().sort():
        price = known[name].usd_per_hour if name in known else None
        if price is not None:
            prices[name] = price
    return prices


def _tables(round_: Round, landing: Path, fitted: Set[str]) -> dict[str, pl.DataFrame]:
    by_table = defaultdict(list)
    for need, run in round_.runs_of(*PROBES["tensorflow"], *PROBES["pytorch"]).items():
        if need.profiles or need.scenario.workload.dnn not in fitted:
            for name, rows in run_tables.tables(landing, run).items():
                by_table[name].append(rows)
    return {name: pl.concat(frames) for name, frames in by_table.items()}


# How wrong Ceer is on DNNs that it has not seen (section V), from profiles and steps alone.


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
    ablations: Sequence[Without] = (frozenset(),),
) -> pl.DataFrame:
    """Fit to all but some DNNs and predict the steps of those.

    The operations of a left-out DNN are known from its profile, not their times. Where nothing
    else was measured on a node type, its steps there are left out.

    Args:
        operations: `models.ceer.operations.OBSERVED`.
        steps: `models.ceer.overhead.STEPS`.
        dnns: which are left out together, fit by fit; None: each by itself.
        ablations: what is left out of predictions, each as `without` of a step; of one fit.

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
        parameters = fit(operations.filter(~left_out), steps.filter(~left_out))
        predictions += [
            _predicted(parameters, operations, rows, without)
            for rows in steps.filter(left_out).partition_by(STEP, maintain_order=True)
            if rows["node_type"][0] in {setup.node_type for setup in parameters.overheads}
            for without in ablations
        ]
    return pl.concat(predictions) if predictions else pl.DataFrame(schema=LEFT_OUT)


def _predicted(
    parameters: Parameters, operations: pl.DataFrame, rows: pl.DataFrame, without: Without
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
    predicted = predict_steps(parameters, network, first["node_type"], without)
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
