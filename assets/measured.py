"""What really happens: W workers train together. Only after the ledger has the predictions."""

from datetime import timedelta

import polars as pl
from dagster import FreshnessPolicy, MaterializeResult, ResourceParam, asset

from assets import landed, plots
from assets.fitting import METRIC, refuse_unpredicted
from assets.loading import load_landed
from assets.measuring import measure_throughput
from assets.metadata import OWNERS, of_frame
from assets.predictions import PREDICTIONS
from assets.progress import Progress
from assets.resources import StudyResource, WarehouseResource


@asset(
    key=["measured", "throughput"],
    deps=PREDICTIONS,
    group_name="measured",
    owners=OWNERS,
    kinds={"tensorflow", "parquet"},
    pool="measuring_host",
    freshness_policy=FreshnessPolicy.time_window(fail_window=timedelta(days=30)),
)
def throughput(
    study: StudyResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
) -> MaterializeResult:
    """Steps per second of all workers, over windows in which all of them are stepping."""
    round_ = study.latest_round()
    refuse_unpredicted(round_, warehouse.published_ledger())
    round_ = measure_throughput(round_, warehouse.landing, progress)
    samples = landed.rows(round_, warehouse.landing, "tf_throughput", "sample")
    windows = samples.filter(pl.col("metric") == METRIC)
    names = windows["name"].unique(maintain_order=True).to_list()
    figure = plots.throughput_windows(windows, names)
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
