"""One answer for a job: all systems on all ways to run it, and what measuring is worth."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial

from forecasting.decisions.candidates import (
    Ranked,
    candidate_of,
    candidates_of,
    errors_of_fit,
    interval_level,
    most_trusted,
    proposed_curves,
    read_evidence,
)
from forecasting.decisions.layouts import layout_curves
from forecasting.decisions.offers import GpuOffers, RegionOffers, known_prices, region_offers
from forecasting.decisions.question import (
    JobQuestion,
    ProfileFacts,
    curves_of,
    profile_facts,
    sharded_curves,
)
from forecasting.forecast import ForecastAnswer, ScenarioForecast, fit_for_scenario, predict_curves
from forecasting.history_scope import visible_runs
from models.choice.candidates import Candidate, Ratios
from models.choice.choice import Decision, MeasurementWorth, Objective, decide, worth_measuring
from models.choice.offers import Markets, pareto_front
from models.gpu_step.device import device_of_node
from models.gpu_step.system import GPU_STEP, GpuStepModel
from models.system import System
from profilers.clusters.node_types import looking_once
from profilers.probe import RequestedScenarios
from profilers.probes import measuring_probe
from studies.planned_runs import expected_s, group_by_start
from warehouse.home import code_version
from warehouse.ledger import price_snapshot
from warehouse.records import Backend, BadInput, Recommendation, Scenario
from warehouse.warehouse import Warehouse

_KEEP = 2
_LIMITS = {"minimize", "max_hours", "budget_usd", "max_usd_per_hour", "late"}
"""Fields of a question that say what is wanted, not what is trained."""


@dataclass(frozen=True)
class Measurement:
    """A scenario that would be measured: by which probe, how long, and what its nodes cost then."""

    worth: MeasurementWorth
    probe: str
    minutes: float
    usd: float

    @property
    def candidate(self) -> Candidate:
        """What would be measured."""
        return self.worth.candidate


def measurements(
    candidates: Sequence[Candidate], objective: Objective, scenarios: Mapping[str, Scenario]
) -> list[Measurement]:
    """Return the measurements that might change a choice, the most worth first; two at most.

    Args:
        candidates: to choose from.
        objective: what is wanted.
        scenarios: of the candidates, by id.
    """
    found = []
    for worth in worth_measuring(candidates, objective)[:_KEEP]:
        candidate = worth.candidate
        scenario = scenarios[candidate.scenario_id]
        probe = measuring_probe(scenario)
        needs = list(probe.needs(RequestedScenarios(test=(scenario,)), probe.settings()))
        seconds = sum(expected_s(start) for start in group_by_start(needs))
        seconds += candidate.expected.fixed_s
        usd = candidate.usd_per_hour * seconds / 3600
        found.append(Measurement(worth, probe.name, seconds / 60, usd))
    return found


Say = Callable[[str], None]
Predict = Callable[..., ForecastAnswer]
"""As `predict_curves`."""


@dataclass(frozen=True)
class Coverage:
    """How much of what was asked about has a forecast, and whether past errors are behind it.

    Attributes:
        asked: ways to run the job: scenarios, without those whose framework or strategy is no
            system's that was asked.
        forecast: of these, with a forecast of any system, in time and money.
        counted: of these, whose forecast counts; those of systems that nobody judged on this
            backend do not, where another's was judged.
        is_judged: whether enough forecasts of the systems that count were judged on this backend
            to say how wrong they are.
        has_evidence: whether past errors, here or elsewhere, say how wrong any of them may be.
        is_of_fits: whether these are errors on public measurements that the fits had not seen.
    """

    asked: int
    forecast: int
    counted: int
    is_judged: bool
    has_evidence: bool
    is_of_fits: bool = False


@dataclass(frozen=True)
class DecisionAnswer:
    """An answer with what it rests on.

    Attributes:
        question: that was asked.
        known: what profiles added to the question.
        answer: what all systems say of all scenarios.
        candidates: one for each scenario and market, by the system that has erred least; where none
            has been judged, by whichever comes first.
        decision: the choice, and alternatives.
        measurements: what might change the choice, the most worth first.
        offered: prices, and how often spot nodes are taken away.
        coverage: how much of what was asked about is known.
        recommendation_id: in the ledger.
        left_out: of the whole catalogue of GPUs, node types that were not asked about, with the
            reason; None: node types were named.
    """

    question: JobQuestion
    known: ProfileFacts
    answer: ForecastAnswer
    candidates: Sequence[Candidate]
    decision: Decision
    measurements: Sequence[Measurement]
    offered: RegionOffers
    coverage: Coverage
    recommendation_id: str
    left_out: Mapping[str, str] | None = None

    @property
    def is_of_catalogue(self) -> bool:
        """Whether all node types with GPUs were asked about, not some that were named."""
        return self.left_out is not None

    @property
    def level(self) -> float:
        """Of its intervals, on either side."""
        return interval_level(self.question.late)

    def forecast_of(self, candidate: Candidate) -> ScenarioForecast | None:
        """Return the forecast that a candidate is of."""
        return self._forecasts.get((candidate.scenario_id, candidate.system))

    @cached_property
    def _forecasts(self) -> Mapping[tuple[str, str], ScenarioForecast]:
        return {
            (forecast.scenario.scenario_id, forecast.system.name): forecast
            for forecast in self.answer.forecasts
        }

    def if_it_fitted(self, forecast: ScenarioForecast) -> Candidate | None:
        """Return what a job would be on nodes that lack the memory for a step, on any market."""
        for market in self.offered.markets:
            with suppress(BadInput):
                unjudged = Ratios(values=(), basis="")
                return candidate_of(forecast, self.question, self.offered, market, unjudged)
        return None

    @property
    def without_forecast(self) -> Mapping[str, int]:
        """Why ways to run the job have no forecast, and how many of them."""
        known = {scenario_id for scenario_id, _ in self._forecasts}
        reasons = Counter(
            refusal.in_words
            for refusal in self.answer.refused
            if not refusal.foreign and refusal.scenario.scenario_id not in known
        )
        return dict(reasons.most_common())

    @cached_property
    def front(self) -> list[Candidate]:
        """What more money buys: within limits, nothing else is both faster and cheaper."""
        objective = self.question.objective
        admitted = [candidate for candidate in self.candidates if objective.admits(candidate)]
        return pareto_front(admitted, key=lambda candidate: candidate.outcome[:2])


@looking_once()
def answer(
    warehouse: Warehouse,
    question: JobQuestion,
    capacity: Mapping[str, int],
    market: Markets,
    systems: Sequence[System],
    *,
    as_of: datetime | None = None,
    backend: Backend | None = None,
    host: str | None = None,
    region: str | None = None,
    catalogue: GpuOffers | None = None,
    say: Say = lambda _: None,
    predict: Predict = predict_curves,
) -> DecisionAnswer:
    """Choose where to run a job, and write the answer to the ledger.

    Systems are asked about nodes of one type, and about mixes that those with a search propose.

    Args:
        warehouse: the history.
        question: the job.
        capacity: how many nodes of each type there are for workers.
        market: where they are rented.
        systems: that are asked.
        as_of: what was measured, judged and priced later does not count; None: now.
        backend: whose profiles count; None: as `forecasting.history_scope.select_host` chooses.
        host: the same, of hosts.
        region: whose prices count; None: as `region_offers` chooses.
        catalogue: that `capacity` is of, with the prices that count; None: all of the region do.
        say: told what takes long.
        predict: forecasts curves, or has done so before.

    Raises:
        BadInput: nothing is known of the network, no price, or no system forecasts anything.
    """
    when = as_of or datetime.now(UTC)
    with warehouse.reading():
        visible = visible_runs(warehouse, when)
        public = host is None and bool(visible_runs(warehouse, when, public=True))
    runs = [
        run for run in visible if backend in (None, run.backend) and host in (None, run.host_id)
    ]
    if not runs and not public:
        raise BadInput(f"nothing had been profiled by {when:%Y-%m-%d}; run a study first")
    known = profile_facts(question, runs)
    curves = curves_of(question, known, capacity)
    observed = known_prices(warehouse, when, region) if catalogue is None else catalogue.prices
    prices = region_offers(question, capacity, market, when, observed)
    ask = partial(predict, warehouse, systems=systems, known_by=when, far_out=False, say=say)
    answer = ask(curves, backend=backend, host=host)
    out_of_memory = [forecast.scenario for forecast in answer.out_of_memory]
    if question.layouts:
        place = answer.chosen_host
        boards = {name: most for name, most in capacity.items() if device_of_node(name) is not None}
        of_gpus = [curve for curve in curves if boards.keys() >= set(curve.worker)]
        if not of_gpus:
            raise BadInput("--layouts: of node types with a GPU; `stepcast node-types` lists them")
        # These micro batches on one node are no way to run the job.
        answer = replace(answer, forecasts=())
        fitted = fit_for_scenario(warehouse, GPU_STEP, of_gpus[0], place, known_by=when, say=say)
        if isinstance(fitted, GpuStepModel):
            of = layout_curves(fitted.steps, question, known, boards, place.backend)
            answer = answer.with_more(ask(of, chosen_host=place)) if of else answer
    elif sharded := sharded_curves(curves, out_of_memory, answer.chosen_host.backend):
        answer = answer.with_more(ask(sharded, chosen_host=answer.chosen_host))
    if mixes := proposed_curves(
        warehouse, question, known, capacity, prices, answer, systems, known_by=when, say=say
    ):
        answer = answer.with_more(ask(mixes, chosen_host=answer.chosen_host))
    evidence = read_evidence(warehouse, answer.chosen_host.backend, question.late, when)
    everything = candidates_of(answer.forecasts, question, prices, evidence, systems)
    if not everything:
        raise BadInput(_nothing(answer, question))
    chosen = most_trusted(everything)
    decision = decide(chosen, question.objective)
    scenarios = {forecast.scenario.scenario_id: forecast.scenario for forecast in answer.forecasts}
    chooser = systems[0].name if len(systems) == 1 else "recommend"
    fields = question.model_dump(mode="json")
    record = Recommendation(
        system=chooser,
        backend=answer.chosen_host.backend,
        job={name: value for name, value in fields.items() if name not in _LIMITS},
        objective=question.minimize,
        constraints={name: fields[name] for name in sorted(_LIMITS - {"minimize"})}
        | {"capacity": dict(capacity), "market": market, "as_of": when.isoformat()},
        choice=None if decision.choice is None else _written(decision.choice),
        alternatives=tuple(_written(alternative) for alternative in decision.alternatives),
        price_snapshot=price_snapshot(prices.prices),
        fit_ids=tuple(sorted({forecast.fit.fit_id for forecast in answer.forecasts})),
        code_version=code_version(),
        made_at=datetime.now(UTC),
    )
    return DecisionAnswer(
        question=question,
        known=known,
        answer=answer,
        candidates=chosen,
        decision=decision,
        measurements=measurements(chosen, question.objective, scenarios),
        offered=prices,
        coverage=_coverage(answer, everything, chosen),
        recommendation_id=warehouse.record_recommendation(record, prices.prices),
        left_out=None if catalogue is None else catalogue.left_out,
    )


def _coverage(
    answer: ForecastAnswer, everything: Sequence[Ranked], chosen: Sequence[Candidate]
) -> Coverage:
    scenarios = {forecast.scenario.scenario_id for forecast in answer.forecasts}
    scenarios |= {refusal.scenario.scenario_id for refusal in answer.refused if not refusal.foreign}
    by_fit: set[str] = set()
    for forecast in answer.forecasts:
        if forecast.system.name not in by_fit and errors_of_fit(forecast):
            by_fit.add(forecast.system.name)
    return Coverage(
        asked=len(scenarios),
        forecast=len({candidate.scenario_id for _, candidate in everything}),
        counted=len({candidate.scenario_id for candidate in chosen}),
        is_judged=not all(rank[0] for rank, _ in everything),
        has_evidence=any(candidate.has_evidence for candidate in chosen),
        is_of_fits=all(rank[0] for rank, _ in everything)
        and by_fit >= {candidate.system for candidate in chosen},
    )


def count_refusals(answer: ForecastAnswer) -> Counter[str]:
    """Return how many scenarios each system refuses for each reason, those of others left out."""
    return Counter(refusal.in_words for refusal in answer.refused if not refusal.foreign)


def _nothing(answer: ForecastAnswer, question: JobQuestion) -> str:
    """Say why there is no forecast: what most scenarios lack."""
    if crowded := [
        (forecast.detail, forecast) for forecast in answer.out_of_memory if forecast.detail
    ]:
        least, _ = min(crowded, key=lambda each: each[0]["needed_bytes"] / each[0]["memory_bytes"])
        _, roomiest = max(crowded, key=lambda each: int(each[0]["largest_batch_size"]))
        needs = f"{least['needed_bytes'] / 2**30:.1f} of {least['memory_bytes'] / 2**30:.1f} GiB"
        instead = roomiest.fitting_batch
        return f"{question.dnn} has no room on any of these nodes: it needs {needs}; {instead}"
    reasons = count_refusals(answer) or Counter(refusal.in_words for refusal in answer.refused)
    why = "; ".join(text for text, _ in reasons.most_common(2))
    return (
        f"no system forecasts {question.dnn} on any of these nodes ({why}); `stepcast predict` "
        "with the same network says what to measure"
    )


def _written(candidate: Candidate) -> dict[str, object]:
    time_s, cost_usd, _ = candidate.outcome
    return {
        "scenario_id": candidate.scenario_id,
        "nodes": candidate.label,
        "market": candidate.market,
        "system": candidate.system,
        "train_s": candidate.train_s,
        "time_s": time_s,
        "cost_usd": cost_usd,
        "past_errors": candidate.ratios.basis if candidate.ratios else None,
    }
