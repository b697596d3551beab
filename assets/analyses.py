"""Assets of probes' rows without a forecast: overhead and its fits, HTTP/2, end times, orders."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, MetadataValue, asset

from assets.metadata import OWNERS, comments, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import StudyLineage
from forecasting.async_sgd import (
    CapturedProfile,
    announced_windows,
    behaviours,
    captured_profiles,
    end_time_errors,
    kept_orders,
    overhead_by_size,
    overhead_lines,
    overhead_rows,
)
from forecasting.findings.mark import Mark
from reports.marks import draw
from studies.rounds import Round
from warehouse.home import code_version
from warehouse.ledger import FitRecord, RegisteredSystem

_BY_SIZE = Mark("line", "size_mb", ("median_ms", "line_ms"))
_WINDOWS = Mark("step", "seconds", ("mib",), of="profile", log="y")


def analyses(of: StudyLineage) -> list[AssetsDefinition]:
    """Return what captured packets of a study are analysed for; nothing where none are captured."""
    if not of.captures:
        return []
    return [_overhead(of), _http2(of), _end_times(of), _transfer_order(of)]


def _of_captures(
    of: StudyLineage,
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


def _overhead(of: StudyLineage) -> AssetsDefinition:
    @_of_captures(of, "overhead", VERSION, of_table("fit.fit"))
    def overhead(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """Overhead of received tensors against their size, by receiving role and node type."""
        round_, house = rounds.latest(of.path), warehouse.open()
        profiles = captured_profiles(round_, warehouse.landing)
        house.register(SYSTEM)
        for record in records(round_, profiles):
            house.record_fit(record)
        fitted, rows = overhead_lines(profiles), overhead_rows(profiles)
        figures = [
            draw(_BY_SIZE, overhead_by_size(rows[key], line), f"{line.node_type} as {line.role}")
            for key, line in fitted.items()
        ]
        frame = pl.DataFrame([line.model_dump() for line in fitted.values()])
        return MaterializeResult(metadata=of_frame(frame, round_, figures, comments(warehouse)))

    return overhead


def _http2(of: StudyLineage) -> AssetsDefinition:
    @_of_captures(of, "http2")
    def http2(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """Flow-control windows, suspended streams and the order of service, run by run."""
        round_ = rounds.latest(of.path)
        profiles = captured_profiles(round_, warehouse.landing)
        announced = [
            rows.select(
                "seconds", profile=pl.lit(profile.title), mib=pl.col("window_bytes") / 2**20
            )
            for profile in profiles
            if (rows := announced_windows(profile, "downlink")).height
        ]
        figures = [draw(_WINDOWS, pl.concat(announced), "downlink")] if announced else []
        return MaterializeResult(metadata=of_frame(behaviours(profiles), round_, figures))

    return http2


def _end_times(of: StudyLineage) -> AssetsDefinition:
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


def _transfer_order(of: StudyLineage) -> AssetsDefinition:
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


# Lines of overhead against size, as the warehouse keeps fits.


SYSTEM = RegisteredSystem(
    name="async_sgd_overhead",
    what="What a receiver does with a tensor after its last packet: alpha x size + beta",
    source="Li, Yan, Paolieri, Golubchik, ICPE 2020, section 3.2.1",
)
VERSION = "1"


def records(round_: Round, profiles: Sequence[CapturedProfile]) -> list[FitRecord]:
    """Return the fit of each receiving role and node type of a round."""
    rows, records = overhead_rows(profiles), []
    for (role, node_type), line in overhead_lines(profiles).items():
        seen = [
            profile.run.run_id
            for profile in profiles
            if any(
                (node.role, node.node_type) == (role, node_type) for node in profile.scenario.nodes
            )
        ]
        records.append(
            FitRecord(
                system=SYSTEM.name,
                model_version=VERSION,
                parameters=line.model_dump(mode="json"),
                run_ids=tuple(seen),
                row_filter=f"captured transfers of these runs that a {role} received",
                row_count=line.n,
                data_hash=sha256(rows[role, node_type].write_csv().encode()).hexdigest()[:16],
                backend=round_.backend,
                host_id=round_.host_id,
                code_version=code_version(),
                created_at=datetime.now(UTC),
            )
        )
    return records
