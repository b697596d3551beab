"""What must hold of assets: blocking where it cannot be otherwise, warnings where it should not."""

from collections.abc import Sequence

from dagster import AssetCheckResult, AssetCheckSeverity, asset_check

from assets.accuracy import table
from assets.captures import transfer_order
from assets.cluster import links
from assets.measured import throughput
from assets.predictions import async_sgd_predictions, linear_predictions
from assets.profiles import tf_trace
from assets.resources import StudyResource, WarehouseResource
from forecasting.captured import captured_profiles, kept_orders
from reports import sanity
from reports.results import forecasts, outcome, unjudged
from studies import landed
from studies.parts import MEASURING

ERROR, WARN = AssetCheckSeverity.ERROR, AssetCheckSeverity.WARN


def _verdict(found: Sequence[str], severity: AssetCheckSeverity) -> AssetCheckResult:
    description = "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
    return AssetCheckResult(
        passed=not found,
        severity=severity,
        description=description or None,
        metadata={"found": len(found)},
    )


@asset_check(asset=links, blocking=True)
def links_are_as_shaped(study: StudyResource, warehouse: WarehouseResource) -> AssetCheckResult:
    """Goodput is between 50 % and 105 % of the speed that links are shaped to."""
    round_ = study.latest_round()
    found: list[str] = []
    for part, run in round_.runs_of("links").items():
        found += sanity.odd_links(landed.table(warehouse.landing, run, "link"), part.link_mbps)
    return _verdict(found, ERROR)


@asset_check(asset=tf_trace, blocking=True)
def traces_are_whole(study: StudyResource, warehouse: WarehouseResource) -> AssetCheckResult:
    """The steps of every trace have the same operations; with servers, transfers both ways too."""
    found: list[str] = []
    for part, run in study.latest_round().runs_of("tf_trace").items():
        operations = landed.table(warehouse.landing, run, "operation")
        timings = landed.table(warehouse.landing, run, "timing")
        has_servers = part.curve.server is not None
        odd = sanity.odd_traces(operations, timings, transfers=has_servers)
        found += [f"{part.name}: {one}" for one in odd]
    return _verdict(found, ERROR)


@asset_check(asset=tf_trace)
def transfers_were_captured(study: StudyResource, warehouse: WarehouseResource) -> AssetCheckResult:
    """Where packets were captured, nearly every transfer was found in them."""
    samples = landed.rows(study.latest_round(), warehouse.landing, "tf_trace", "sample")
    return _verdict(sanity.uncaptured(samples) if samples.height else [], WARN)


@asset_check(asset=transfer_order, pool="warehouse")
def orders_are_kept(study: StudyResource, warehouse: WarehouseResource) -> AssetCheckResult:
    """Enforced orders of transfers are kept far better than chance would."""
    kept = kept_orders(captured_profiles(study.latest_round(), warehouse.landing))
    return _verdict(sanity.lost_orders(kept), WARN)


@asset_check(asset=async_sgd_predictions, blocking=True, pool="warehouse")
def links_can_carry_it(study: StudyResource, warehouse: WarehouseResource) -> AssetCheckResult:
    """No prediction is above what the server's link can carry."""
    round_ = study.latest_round()
    if round_.study.kind != "asynchronous":
        return _verdict([], ERROR)
    ledger = warehouse.open().predictions(round_.study.name, round_.repeat)
    bounds = sanity.link_bounds(
        landed.of_curves(round_, warehouse.landing, "operation"),
        landed.rows(round_, warehouse.landing, "links", "link"),
    )
    return _verdict(sanity.impossible(forecasts(round_, ledger), bounds), ERROR)


@asset_check(asset=async_sgd_predictions, additional_deps=[linear_predictions], pool="warehouse")
def not_above_linear(study: StudyResource, warehouse: WarehouseResource) -> AssetCheckResult:
    """No prediction is above linear scaling."""
    round_ = study.latest_round()
    if round_.study.kind != "asynchronous":
        return _verdict([], WARN)
    ledger = warehouse.open().predictions(round_.study.name, round_.repeat)
    return _verdict(sanity.superlinear(forecasts(round_, ledger)), WARN)


@asset_check(asset=throughput)
def host_was_not_busy(study: StudyResource, warehouse: WarehouseResource) -> AssetCheckResult:
    """In every window a fifth of the processor time was idle, and hardly any was stolen."""
    round_ = study.latest_round()
    samples = landed.rows(round_, warehouse.landing, MEASURING[round_.study.kind], "sample")
    return _verdict(sanity.disturbed_windows(samples), WARN)


@asset_check(asset=table, blocking=True, pool="warehouse")
def everything_is_judged(study: StudyResource, warehouse: WarehouseResource) -> AssetCheckResult:
    """Every scenario of the round has a prediction that a later measurement judged."""
    rows = outcome(study.latest_round(), warehouse.open().accuracy())
    mend = f"`stepcast reproduce {warehouse.landing}` in a new home forecasts before it measures"
    why = f"the history has no forecast of it from before its measurement; {mend}"
    found = [f"{label} is not judged: {why}" for label in unjudged(rows)]
    return _verdict(found, ERROR)
