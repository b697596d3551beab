"""What captured packets show: overhead of transfers, HTTP/2, end times, orders that were kept."""

import polars as pl
from dagster import MaterializeResult, MetadataValue, asset

from assets import overhead_fits
from assets.metadata import OWNERS, of_frame
from assets.profiles import profiles_loaded, tf_trace
from assets.resources import StudyResource, WarehouseResource
from forecasting.captured import (
    announced,
    behaviours,
    captured_profiles,
    end_time_errors,
    kept_orders,
    overhead_lines,
    overhead_rows,
)
from reports import capture_plots


@asset(
    key=["fits", overhead_fits.SYSTEM.name],
    deps=[profiles_loaded],
    group_name="fits",
    owners=OWNERS,
    kinds={"python", "duckdb"},
    pool="warehouse",
    code_version=overhead_fits.VERSION,
)
def overheads(study: StudyResource, warehouse: WarehouseResource) -> MaterializeResult:
    """Overhead of received tensors against their size, by receiving role and node type."""
    round_, house = study.latest_round(), warehouse.open()
    profiles = captured_profiles(round_, warehouse.landing)
    house.register(overhead_fits.SYSTEM)
    for record in overhead_fits.records(round_, profiles):
        house.record_fit(record)
    fitted, rows = overhead_lines(profiles), overhead_rows(profiles)
    figures = [
        capture_plots.overhead(rows[key], line, f"{line.node_type} as {line.role}")
        for key, line in fitted.items()
    ]
    frame = pl.DataFrame([line.model_dump() for line in fitted.values()])
    return MaterializeResult(metadata=of_frame(frame, round_, figures))


@asset(
    key=["profiles", "http2"],
    deps=[tf_trace],
    group_name="profiles",
    owners=OWNERS,
    kinds={"tcpdump"},
    pool="warehouse",
)
def http2(study: StudyResource, warehouse: WarehouseResource) -> MaterializeResult:
    """Flow-control windows, suspended streams and the order of service, run by run."""
    round_ = study.latest_round()
    profiles = captured_profiles(round_, warehouse.landing)
    windows = {one.title: rows for one in profiles if (rows := announced(one, "downlink")).height}
    figures = [capture_plots.windows(windows, "downlink")] if windows else []
    return MaterializeResult(metadata=of_frame(behaviours(profiles), round_, figures))


@asset(
    key=["profiles", "end_times"],
    deps=[tf_trace],
    group_name="profiles",
    owners=OWNERS,
    kinds={"tcpdump"},
    pool="warehouse",
)
def end_times(study: StudyResource, warehouse: WarehouseResource) -> MaterializeResult:
    """Table 1: how well the model of a link tells when each downlink stream ends."""
    round_ = study.latest_round()
    frame = end_time_errors(captured_profiles(round_, warehouse.landing))
    medians = {
        f"median error of {row['dnn']}": MetadataValue.float(row["median"])
        for row in frame.to_dicts()
    }
    return MaterializeResult(metadata={**of_frame(frame, round_), **medians})


@asset(
    key=["profiles", "transfer_order"],
    deps=[tf_trace],
    group_name="profiles",
    owners=OWNERS,
    kinds={"tcpdump"},
    pool="warehouse",
)
def transfer_order(study: StudyResource, warehouse: WarehouseResource) -> MaterializeResult:
    """Share of the pairs of transfers that came in the order that was enforced; 0.5 is chance."""
    round_ = study.latest_round()
    frame = kept_orders(captured_profiles(round_, warehouse.landing))
    shares = {
        f"kept, {row['title']}": MetadataValue.float(row["kept"])
        for row in frame.to_dicts()
        if row["kept"] is not None
    }
    return MaterializeResult(metadata={**of_frame(frame, round_), **shares})
