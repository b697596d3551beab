"""The assets, checks and job of a study; checks block what cannot be, and warn of the rest."""

from collections.abc import Callable, Sequence
from pathlib import Path

import dagster as dg

from assets.resources import RoundsResource, WarehouseResource
from assets.study_assets import fit_asset, prediction_asset, probe_asset, report_asset, table_asset
from assets.study_lineage import StudyLineage, read_lineage
from forecasting import sanity
from forecasting.results import forecasts, unjudged_labels
from models.async_sgd.systems import ASYNC_SGD
from models.baselines import LINEAR
from profilers.probes import PROBES
from studies import run_tables
from studies.messages import name_some
from studies.rounds import Round
from warehouse.records import Backend

Found = Callable[[Round, WarehouseResource], Sequence[str]]


def checks(of: StudyLineage) -> list[dg.AssetChecksDefinition]:
    """Return the checks of a study's assets."""
    checks = []
    if "links" in of.profiling:
        checks.append(_check(of, ("profiles", "links"), _links_are_as_shaped, blocking=True))
    if "tf_trace" in of.profiling:
        key = "profiles", "tf_trace"
        checks.append(_check(of, key, _traces_are_whole, blocking=True))
        checks.append(_check(of, key, _transfers_were_captured))
    if ASYNC_SGD in of.rests:
        key = "predictions", ASYNC_SGD.name
        checks.append(_check(of, key, _links_can_carry_it, blocking=True))
        if LINEAR in of.rests:
            others = [of.key("predictions", LINEAR.name)]
            checks.append(_check(of, key, _not_above_linear, others=others))
    checks += [
        _check(of, ("measured", probe), _host_was_not_busy(probe))
        for probe in of.measuring
        if PROBES[probe].metric is not None
    ]
    if of.study.test:
        checks.append(_check(of, ("accuracy", "table"), _everything_is_judged, blocking=True))
    return checks


def _check(
    of: StudyLineage,
    key: tuple[str, str],
    find: Found,
    *,
    blocking: bool = False,
    others: Sequence[dg.AssetKey] = (),
) -> dg.AssetChecksDefinition:
    """Return a check of an asset that passes where `find` finds nothing."""
    severity = dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN

    @dg.asset_check(
        asset=of.key(*key),
        name=find.__name__.strip("_"),
        description=find.__doc__,
        blocking=blocking,
        additional_deps=others,
        pool="warehouse",
    )
    def check(rounds: RoundsResource, warehouse: WarehouseResource) -> dg.AssetCheckResult:
        faults = find(rounds.latest(of.path), warehouse)
        return dg.AssetCheckResult(
            passed=not faults,
            severity=severity,
            description=name_some(faults) or None,
            metadata={"found": len(faults)},
        )

    return check


def _links_are_as_shaped(round_: Round, warehouse: WarehouseResource) -> list[str]:
    """Goodput is between 50 % and 105 % of the speed that links are shaped to."""
    return [
        odd_link
        for need, run in round_.runs_of("links").items()
        for odd_link in sanity.odd_links(
            run_tables.table(warehouse.landing, run, "link"), need.subject.link_mbps
        )
    ]


def _traces_are_whole(round_: Round, warehouse: WarehouseResource) -> list[str]:
    """The steps of every trace have the same operations; with servers, transfers both ways too."""
    faults: list[str] = []
    for need, run in round_.runs_of("tf_trace").items():
        operations = run_tables.table(warehouse.landing, run, "operation")
        timings = run_tables.table(warehouse.landing, run, "timing")
        has_servers = bool(need.scenario.strategy.servers)
        odd = sanity.odd_traces(operations, timings, transfers=has_servers)
        faults += [f"{need.title}: {fault}" for fault in odd]
    return faults


def _transfers_were_captured(round_: Round, warehouse: WarehouseResource) -> list[str]:
    """Where packets were captured, nearly every transfer was found in them."""
    samples = run_tables.rows(round_, warehouse.landing, "tf_trace", "sample")
    return sanity.uncaptured(samples) if samples.height else []


def _links_can_carry_it(round_: Round, warehouse: WarehouseResource) -> list[str]:
    """No prediction is above what the server's link can carry."""
    ledger = warehouse.open().query("predictions", study=round_.study.name, repeat=round_.repeat)
    bounds = sanity.link_bounds(
        run_tables.of_curves(round_, warehouse.landing, "operation"),
        run_tables.rows(round_, warehouse.landing, "links", "link"),
    )
    return sanity.impossible(forecasts(round_, ledger), bounds)


def _not_above_linear(round_: Round, warehouse: WarehouseResource) -> list[str]:
    """No prediction is above linear scaling."""
    ledger = warehouse.open().query("predictions", study=round_.study.name, repeat=round_.repeat)
    return sanity.superlinear(forecasts(round_, ledger))


def _host_was_not_busy(probe: str) -> Found:
    def host_was_not_busy(round_: Round, warehouse: WarehouseResource) -> list[str]:
        """In every window a fifth of the processor time was idle, and hardly any was stolen."""
        samples = run_tables.rows(round_, warehouse.landing, probe, "sample", "measurement")
        return sanity.disturbed_windows(samples) if samples.height else []

    return host_was_not_busy


def _everything_is_judged(round_: Round, warehouse: WarehouseResource) -> list[str]:
    """Every scenario of the round has a prediction that a later measurement judged."""
    labels = unjudged_labels(round_, warehouse.open().query("judged"))
    mend = f"`stepcast reproduce {warehouse.landing}` in a new home forecasts before it measures"
    why = f"the history has no forecast of it from before its measurement; {mend}"
    return [f"{label} is not judged: {why}" for label in labels]


JOB_OF_STUDY = {"stepcast/job": "study"}
"""Tag of jobs that run a study, and of their runs: tells them from upkeep in lists."""


def definitions_of(path: Path, backend: Backend = "emulated") -> dg.Definitions:
    """Return what Dagster is to know of a study: only the probes and systems that it concerns.

    Which these are may depend on the backend: one whose links are as they are has one speed.
    """
    of = read_lineage(path, backend)
    predicted = [of.key("predictions", system.name) for system in of.systems]
    assets = [
        *(probe_asset(of, probe, "profile") for probe in of.profiling),
        *(fit_asset(of, system) for system in of.systems),
        *(prediction_asset(of, system) for system in of.systems),
        *(probe_asset(of, probe, "measurement", predicted) for probe in of.measuring),
        *((table_asset(of), report_asset(of)) if of.study.test else ()),
    ]
    job = dg.define_asset_job(
        of.name,
        selection=assets,
        # What measures runs alone: steps one after another, in one process.
        executor_def=dg.in_process_executor,
        tags=JOB_OF_STUDY,
        description=of.study.description or f"Profile, predict and measure {of.study.name}.",
    )
    return dg.Definitions(assets=assets, asset_checks=checks(of), jobs=[job])
