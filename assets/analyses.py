"""Assets of what probes' rows say without forecasting: overhead, HTTP/2, end times, kept orders."""

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, MetadataValue, asset

from assets import overhead_fits
from assets.metadata import OWNERS, comments, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.studied import Studied
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


def analyses(of: Studied) -> list[AssetsDefinition]:
    """Return what captured packets of a study are analysed for; nothing where none are captured."""
    if not of.captures:
        return []
    return [_overhead(of), _http2(of), _end_times(of), _transfer_order(of)]


def _of_captures(
    of: Studied,
    noun: str,
    code_version: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., MaterializeResult]], AssetsDefinition]:
    """Return what makes an asset of a function that analyses captured packets."""
    return asset(
        key=of.key("analyses", noun),
        deps=[of.key("profiles", "tf_trace")],
        group_name=of.name,
        owners=OWNERS,
        kinds={"analysis", "tcpdump"},
        pool="warehouse",
        code_version=code_version,
        metadata=metadata,
    )


def _overhead(of: Studied) -> AssetsDefinition:
    @_of_captures(of, "overhead", overhead_fits.VERSION, of_table("fit.fit"))
    def overhead(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """Overhead of received tensors against their size, by receiving role and node type."""
        round_, house = rounds.latest(of.path), warehouse.open()
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
        return MaterializeResult(metadata=of_frame(frame, round_, figures, comments(warehouse)))

    return overhead


def _http2(of: Studied) -> AssetsDefinition:
    @_of_captures(of, "http2")
    def http2(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """Flow-control windows, suspended streams and the order of service, run by run."""
        round_ = rounds.latest(of.path)
        profiles = captured_profiles(round_, warehouse.landing)
        sizes = {one.title: rows for one in profiles if (rows := announced(one, "downlink")).height}
        figures = [capture_plots.windows(sizes, "downlink")] if sizes else []
        return MaterializeResult(metadata=of_frame(behaviours(profiles), round_, figures))

    return http2


def _end_times(of: Studied) -> AssetsDefinition:
    @_of_captures(of, "end_times")
    def end_times(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """How well the model of a link tells when each downlink stream ends (ICPE'20, Table 1)."""
        round_ = rounds.latest(of.path)
        frame = end_time_errors(captured_profiles(round_, warehouse.landing))
        medians = {
            f"median error of {row['dnn']}": MetadataValue.float(row["median"])
            for row in frame.to_dicts()
        }
        return MaterializeResult(metadata={**of_frame(frame, round_), **medians})

    return end_times


def _transfer_order(of: Studied) -> AssetsDefinition:
    @_of_captures(of, "transfer_order")
    def transfer_order(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """Share of the pairs of transfers that came in the order that was enforced."""
        round_ = rounds.latest(of.path)
        frame = kept_orders(captured_profiles(round_, warehouse.landing))
        shares = {
            f"kept, {row['title']}": MetadataValue.float(row["kept"])
            for row in frame.to_dicts()
            if row["kept"] is not None
        }
        return MaterializeResult(metadata={**of_frame(frame, round_), **shares})

    return transfer_order
