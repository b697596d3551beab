"""What really happens: W workers train together. Only after the ledger has the predictions."""

from datetime import timedelta

import polars as pl
from dagster import FreshnessPolicy, MaterializeResult, ResourceParam, asset

from assets.loading import load_landed
from assets.metadata import OWNERS, of_frame
from assets.predictions import PREDICTIONS
from assets.resources import StudyResource, WarehouseResource
from forecasting.fitting import refuse_unpredicted
from reports import plots
from studies import landed
from studies.measuring import measure
from studies.parts import MEASURING
from studies.progress import Progress


@asset(
    key=["measured", "throughput"],
    deps=PREDICTIONS,
    group_name="measured",
    owners=OWNERS,
    kinds={"tensorflow", "pytorch", "parquet"},
    pool="measuring_host",
    freshness_policy=FreshnessPolicy.time_window(fail_window=timedelta(days=30)),
)
def throughput(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Training with all workers: steps per second if asynchronous, else seconds per step."""
    round_ = study.latest_round()
    refuse_unpredicted(round_, warehouse.published_ledger())
    round_ = measure(round_, warehouse.landing, progress)
    samples = landed.rows(round_, warehouse.landing, MEASURING[round_.study.kind], "sample")
    windows = samples.filter(pl.col("metric") == round_.study.metric)
    names = windows["name"].unique(maintain_order=True).to_list()
    figure = plots.windows(windows, names, f"{round_.study.metric_in_words}, one point per window")
    return MaterializeResult(metadata=of_frame(samples, round_, [figure]))


@asset(
    key=["measured", "loaded"],
    deps=[throughput],
    group_name="measured",
    owners=OWNERS,
    kinds={"duckdb"},
    pool="warehouse",
)
def measured_loaded(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Measurement runs in the warehouse, where they judge predictions."""
    return load_landed(study.latest_round(), warehouse.open(), "measurement", progress)
