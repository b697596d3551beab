"""Candidates for a job: what searches propose, and forecasts with time, cost and risk."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from math import log, pi, sqrt
from statistics import NormalDist
from typing import Any

import polars as pl

from forecasting.costs import examples_per_step
from forecasting.decisions.offers import RegionOffers
from forecasting.decisions.question import JobQuestion, ProfileFacts
from forecasting.fit_plan import Say
from forecasting.forecast import ForecastAnswer, ScenarioForecast, fit_for_scenario
from models.choice.candidates import Candidate, Ratios, fewest_ratios, normal_ratios, widen_ratios
from models.choice.limits import Job
from models.choice.offers import Offer, ProposedNodes
from models.choice.overheads import expected_duration
from models.gpu_step.columns import COVERED
from models.system import System
from models.systems import SEARCHES
from studies.curve import Curve
from warehouse.records import Backend, BadInput, Market
from warehouse.warehouse import Warehouse

# How wrong a system's forecasts have been on other days: what an answer's intervals rest on.


HOURS_APART = 12.0
"""A run so long after the newest profile that a forecast rests on is of another day."""
ACROSS_DAYS = 0.113
"""Mean error with profiles of another day: srift's, after a change of the host
(lab/srift.md)."""
WIDENED = 2.8
"""By how much errors grow from one day to another, where only those of the same day are known:
srift's 11.3 % over the 4.1 % of reference_ddp with profiles of the same day."""
_ELSEWHERE = frozenset({"held_out_host", "few_on_host"})
"""The splits of forecasts from steps of other hosts: this one has none, or few."""
_RATIOS = {
    **dict.fromkeys(("system", "metric", "split"), pl.String),
    **dict.fromkeys(("ratio", "hours_apart"), pl.Float64),
}
"""Columns of query time_ratios that count here."""
_COVERING = NormalDist().inv_cdf((1 + COVERED) / 2)
"""Standard deviations to either side of an interval."""
_LEVEL = 0.1
"""An answer has the interval of this level on either side, or of --late where that is less."""


@dataclass(frozen=True)
class PastSystemErrors:
    """What is known of a system's errors; `rank` orders systems: the least is trusted most."""

    ratios: Ratios
    rank: tuple[bool, float]


@dataclass(frozen=True)
class Evidence:
    """All past errors on one backend.

    Attributes:
        rows: of query time_ratios.
        late: the level that intervals are needed at.
    """

    rows: pl.DataFrame
    late: float | None

    def errors(self, system: str, split: str, metric: str) -> PastSystemErrors:
        """Return what past errors say of a forecast of a system, that far from what its fit saw.

        Those count of other days at this distance; else of other days at any distance; else those
        of the same day at this distance, widened; else a default, of a system that nobody judged.
        There have to be enough for an interval. Of a host with few steps or none only errors of
        such forecasts tell; where there are too few, there are none, and no default.
        """
        of_system = self.rows.filter(system=system, metric=metric)
        of_split = of_system.filter(split=split)
        distance = split.replace("_", " ")
        known = [(of_split, distance)] + (
            [(of_system, "any distance")] if split not in _ELSEWHERE else []
        )
        for is_other in (True, False):
            for rows, where in known:
                values = _values(rows, is_other)
                if len(values) >= self._needed:
                    day, factor = (
                        ("other days", 1.0) if is_other else ("same day, widened", WIDENED)
                    )
                    ratios = widen_ratios(values, factor, f"{where}, {day}, n = {len(values)}")
                    return PastSystemErrors(ratios, (False, ratios.spread))
        if split in _ELSEWHERE:
            ratios = Ratios(values=(), basis=f"no evidence: too few forecasts of {distance} judged")
            return PastSystemErrors(ratios, (True, ratios.spread))
        basis = f"default: {ACROSS_DAYS:.1%} in the mean"
        return PastSystemErrors(
            normal_ratios(ACROSS_DAYS * sqrt(pi / 2), basis), (True, ACROSS_DAYS)
        )

    @property
    def _needed(self) -> int:
        return fewest_ratios(interval_level(self.late))


def errors_of_fit(forecast: ScenarioForecast) -> PastSystemErrors | None:
    """Return what a forecast's own interval says; None: nothing was left out to judge its fit.

    Errors are those of public measurements that its fit had not seen: logarithms of ratios are
    normal, and as wide as the interval.
    """
    detail = forecast.detail or {}
    percent, past_n = detail.get("past_error_percent"), detail.get("past_n")
    if percent is None or not forecast.value or forecast.high is None:
        return None
    sigma = log(forecast.high / forecast.value) / _COVERING
    devices = detail["past_devices"]
    left_out, where = ("networks", f" on {', '.join(devices)}") if devices else ("GPUs", "")
    basis = f"{left_out} left out of its fit, {percent:.0f} %, n = {past_n}{where}"
    if (scaling := detail.get("scaling_percent")) is not None:
        basis += f"; scaling {scaling:.0f} %, n = {detail['scaling_n']}"
    ratios = normal_ratios(sigma, basis)
    return PastSystemErrors(ratios, (True, ratios.spread))


def read_evidence(
    warehouse: Warehouse, backend: Backend, late: float | None, known_by: datetime
) -> Evidence:
    """Read all past errors on a backend that were known at a time."""
    with warehouse.reading():
        if not warehouse.has_runs_on(backend):
            return Evidence(pl.DataFrame(schema=_RATIOS), late)
        rows = warehouse.query("time_ratios", backend=backend, known_by=known_by.isoformat())
        return Evidence(rows, late)


def interval_level(late: float | None) -> float:
    """Return the level of intervals: a tenth on either side, or less where less is asked for."""
    return min(late or _LEVEL, _LEVEL)


def _values(rows: pl.DataFrame, is_other_day: bool) -> tuple[float, ...]:
    apart = pl.col("hours_apart") >= HOURS_APART
    return tuple(rows.filter(apart if is_other_day else ~apart)["ratio"].to_list())


Ranked = tuple[tuple[bool, float, int], Candidate]
"""A candidate with how little its system is trusted: the least comes first."""


def candidates_of(
    forecasts: Sequence[ScenarioForecast],
    question: JobQuestion,
    prices: RegionOffers,
    evidence: Evidence,
    systems: Sequence[System],
) -> list[Ranked]:
    """Return a candidate for each forecast and market that has prices, with its system's rank.

    Nodes without the memory for a step, and spot nodes that are lost too often to end the job, are
    no candidates.

    Raises:
        BadInput: there is no candidate for that reason.
    """
    places = {system.name: place for place, system in enumerate(systems)}
    errors_at = cache(evidence.errors)
    ranked: list[Ranked] = []
    endless: BadInput | None = None
    for forecast in forecasts:
        if forecast.value is None or not forecast.value > 0 or not forecast.fits_memory:
            continue
        errors = errors_at(forecast.system.name, forecast.split, forecast.metric.name)
        if errors.rank[0]:
            errors = errors_of_fit(forecast) or errors
        rank = *errors.rank, places[forecast.system.name]
        for market in prices.markets:
            try:
                made = candidate_of(forecast, question, prices, market, errors.ratios)
            except BadInput as error:
                endless = error
                continue
            if made is not None:
                ranked.append((rank, made))
    if endless is not None and not ranked:
        raise endless
    return ranked


def candidate_of(
    forecast: ScenarioForecast,
    question: JobQuestion,
    prices: RegionOffers,
    market: Market,
    ratios: Ratios,
) -> Candidate | None:
    """Return what a forecast makes of a job on a market; None: it lacks a value or a price.

    Raises:
        BadInput: spot nodes are lost too often to end it.
    """
    scenario = forecast.scenario
    hourly, speed = prices.usd_per_hour(scenario, market), forecast.samples_per_s
    if hourly is None or speed is None:
        return None
    groups, batch_size = scenario.worker_groups, scenario.workload.batch_size
    label = " + ".join(
        f"{group.count} {group.node_type}@{group.batch_size or batch_size}" for group in groups
    )
    workers = sum(group.count for group in groups)
    if servers := scenario.strategy.servers:
        label += f" + {servers} {question.server}"
    elif scenario.workload.framework == "tensorflow":
        label += " (TensorFlow)"
    strategy = scenario.strategy
    if strategy.casts_once:
        label += f" {strategy.kind}" if strategy.kind != "all_reduce" else ""
        label += f", {strategy.layout}" if strategy.layout else ""
    if scenario.what_if is not None:
        label += f", {scenario.what_if}"
    if question.layouts:
        accumulate = scenario.workload.accumulate
        label += f", {accumulate} passes" if accumulate > 1 else ""
        label += ", activations again" if scenario.workload.dnn == question.dnn else ""
    if market == "spot" or len(prices.markets) > 1:
        label += f" {market.replace('_', ' ')}"
    return Candidate(
        key=f"{scenario.scenario_id} {market}",
        label=label,
        system=forecast.system.name,
        training=f"{scenario.workload.framework} {strategy.kind} {strategy.servers}",
        node_types=tuple(group.node_type for group in groups),
        workers=workers,
        market=market,
        usd_per_hour=hourly,
        train_s=question.samples / speed,
        expected=expected_duration(
            question.overheads,
            prices.preemptions_per_hour(scenario, market),
            is_lost=scenario.what_if == "lost-node",
        ),
        ratios=ratios,
        step_samples=examples_per_step(scenario),
    )


def most_trusted(everything: Sequence[Ranked]) -> list[Candidate]:
    """Return one candidate for the same nodes and market: by the system that has erred least.

    Those of systems that were never judged are left out, unless there are no others. A device by
    itself and the same one as the only replica are one candidate: it by itself, of equals.
    """
    judged = [ranked for ranked in everything if not ranked[0][0]]
    trusted: dict[tuple[str, str], tuple[tuple[Any, ...], Candidate]] = {}
    for rank, candidate in judged or everything:
        nodes = candidate.label, candidate.market
        order = *rank, "single" not in candidate.training
        if nodes not in trusted or order < trusted[nodes][0]:
            trusted[nodes] = order, candidate
    return [candidate for _, candidate in trusted.values()]


def proposed_curves(
    warehouse: Warehouse,
    question: JobQuestion,
    known: ProfileFacts,
    capacity: Mapping[str, int],
    prices: RegionOffers,
    answer: ForecastAnswer,
    systems: Sequence[System],
    *,
    known_by: datetime,
    say: Say = lambda _: None,
) -> list[Curve]:
    """Return curves of what systems propose for a job whose global batch they may divide.

    Nodes of one market train together, of two types at least of which the system has profiles.

    Args:
        warehouse: the history.
        question: the job.
        known: what profiles say of it.
        capacity: how many nodes of each type there are.
        prices: of these nodes.
        answer: what is forecast already of nodes of one type; none of it is proposed again.
        systems: that are asked; those of `SEARCHES` propose.
        known_by: runs that started later do not count.
        say: told what takes long.
    """
    batch = question.global_batch
    if batch is None or "pytorch" not in known.frameworks:
        return []
    job = Job(
        global_batch=batch,
        iterations=-(-question.samples // batch),
        minimize=question.minimize,
        **question.objective.limits.model_dump(),
    )
    answered = {forecast.scenario for forecast in answer.forecasts}
    answered |= {refusal.scenario for refusal in answer.refused}
    curves: dict[Curve, None] = {}
    for system in systems:
        search = SEARCHES.get(system)
        types = _profiled(system, capacity, answer)
        if search is None or len(types) < 2:
            continue
        each = _curve(question, known, [ProposedNodes(1, name, 1) for name in types])
        chosen_host = answer.chosen_host
        fitted = fit_for_scenario(warehouse, system, each, chosen_host, known_by=known_by, say=say)
        if fitted is None:
            continue
        scenario = each.scenarios(chosen_host.backend)[0]
        for market in prices.markets:
            offers = list(_offers(prices, {name: capacity[name] for name in types}, market))
            for proposal in search(fitted, scenario, job, offers):
                curve = _curve(question, known, proposal)
                if answered.isdisjoint(curve.scenarios(chosen_host.backend)):
                    curves[curve] = None
    return list(curves)


def _profiled(system: System, capacity: Mapping[str, int], answer: ForecastAnswer) -> list[str]:
    """Return the node types on offer of which a system lacks no run."""
    lacking = {
        group.node_type
        for refusal in answer.refused
        if refusal.system == system
        and (refusal.lacking or answer.chosen_host.lacks(refusal.scenario))
        for group in refusal.scenario.worker_groups
    }
    return [name for name in capacity if name not in lacking]


def _offers(prices: RegionOffers, capacity: Mapping[str, int], market: Market) -> Iterator[Offer]:
    for price in prices.prices:
        if price.market == market and price.node_type in capacity:
            yield Offer(
                node_type=price.node_type,
                market=market,
                usd_per_hour=price.usd_per_hour,
                capacity=capacity[price.node_type],
            )


def _curve(question: JobQuestion, known: ProfileFacts, proposal: Sequence[ProposedNodes]) -> Curve:
    """Return the curve of a proposal, as a study would list it."""
    common = {
        "dnn": question.dnn,
        "framework": "pytorch",
        "strategy": "all_reduce",
        "image_size": known.image_size,
        "link_mbps": known.link_mbps,
        "devices_per_node": question.devices_per_node,
        **question.recipe,
        "what_if": question.what_if,
    }
    if len(proposal) > 1:
        return Curve.model_validate(common | {"mix": " + ".join(nodes.label for nodes in proposal)})
    (nodes,) = proposal
    alone = {"worker": nodes.node_type, "workers": nodes.count, "batch_size": nodes.batch_size}
    return Curve.model_validate(common | alone)
