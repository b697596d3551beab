"""One answer for a job: every system is asked about every way to run it within what is on offer."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from forecasting.asked.answer import Answer, predict_asked
from forecasting.asked.runs import visible_runs
from forecasting.decisions.candidates import Ranked, candidates_of, most_trusted
from forecasting.decisions.enumerating import Known, curves_of, known_of
from forecasting.decisions.evidence import level, read_evidence
from forecasting.decisions.measuring import Measurement, measurements
from forecasting.decisions.offered import Offered, offered
from forecasting.decisions.question import Question
from models.choosing.candidates import Candidate
from models.choosing.deciding import Aim, Decision, best, decide, rules_of_thumb
from models.choosing.offers import Markets
from models.choosing.pareto import pareto_front
from models.system import System
from warehouse.records import Backend, BadInput, Recommendation
from warehouse.systems import System as Registered
from warehouse.version import code_version
from warehouse.warehouse import Warehouse

Say = Callable[[str], None]
NAME = "recommend"
"""The name of combined answers in the ledger."""
_REGISTERED = Registered(
    name=NAME,
    what="For each way to run a job the system that has erred least; the best way of all",
    source="ours",
)


@dataclass(frozen=True)
class Says:
    """What one system would choose of the candidates that it forecasts.

    `of_choice` is what it says training takes on the overall choice, seconds; None: nothing.
    `is_judged`: forecasts of it have been measured on this backend.
    """

    system: str
    is_judged: bool
    candidates: int
    choice: Candidate | None
    of_choice: float | None


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
    """

    asked: int
    forecast: int
    counted: int
    is_judged: bool
    has_evidence: bool


@dataclass(frozen=True)
class Answered:
    """An answer with what it rests on.

    Attributes:
        question: that was asked.
        aim: what is wanted.
        known: what profiles added to the question.
        answer: what all systems say of all scenarios.
        candidates: one for each scenario and market, by the system that has erred least; where none
            has been judged, by whichever comes first.
        decision: the choice, and alternatives.
        rules: what rules of thumb take.
        says: what each system would choose.
        measurements: what might change the choice, the most worth first.
        offered: prices, and how often spot nodes are taken away.
        coverage: how much of what was asked about is known.
        recommendation_id: in the ledger.
    """

    question: Question
    aim: Aim
    known: Known
    answer: Answer
    candidates: Sequence[Candidate]
    decision: Decision
    rules: Mapping[str, Candidate | None]
    says: Sequence[Says]
    measurements: Sequence[Measurement]
    offered: Offered
    coverage: Coverage
    recommendation_id: str

    @property
    def level(self) -> float:
        """Of its intervals, on either side."""
        return level(self.question.late)

    @property
    def front(self) -> list[Candidate]:
        """What more money buys: within limits, nothing else is both faster and cheaper."""
        admitted = [one for one in self.candidates if self.aim.admits(one)]
        return pareto_front(admitted, key=lambda one: one.outcome[:2])


def answer(
    warehouse: Warehouse,
    question: Question,
    capacity: Mapping[str, int],
    market: Markets,
    systems: Sequence[System],
    *,
    as_of: datetime | None = None,
    backend: Backend | None = None,
    host: str | None = None,
    say: Say = lambda _: None,
) -> Answered:
    """Choose where to run a job, and write the answer to the ledger.

    Args:
        warehouse: the history.
        question: the job.
        capacity: how many nodes of each type there are for workers.
        market: where they are rented.
        systems: that are asked.
        as_of: what was measured, judged and priced later does not count; None: now.
        backend: whose profiles count; None: as `forecasting.asked.place.place_of` chooses.
        host: the same, of hosts.
        say: told what takes long.

    Raises:
        BadInput: nothing is known of the network, no price, or no system forecasts anything.
    """
    when = as_of or datetime.now(UTC)
    with warehouse.reading():
        visible = visible_runs(warehouse, when)
    runs = [
        run for run in visible if backend in (None, run.backend) and host in (None, run.host_id)
    ]
    if not runs:
        raise BadInput(f"nothing had been profiled by {when:%Y-%m-%d}; run a study first")
    known = known_of(question, runs)
    curves = curves_of(question, known, capacity)
    prices = offered(warehouse, question, capacity, market, when)
    found = predict_asked(
        warehouse,
        curves,
        systems,
        backend=backend,
        host=host,
        known_by=when,
        far_out=False,
        say=say,
    )
    evidence = read_evidence(warehouse, found.place.backend, question.late, when)
    everything = candidates_of(found.forecasts, question, prices, evidence, systems)
    if not everything:
        raise BadInput(_nothing(found, question))
    chosen = most_trusted(everything)
    decision = decide(chosen, question.aim)
    rules = rules_of_thumb(chosen, question.aim)
    scenarios = {one.scenario.scenario_id: one.scenario for one in found.forecasts}
    warehouse.register(_REGISTERED)
    record = _record(question, capacity, market, as_of or when, found, decision, prices, warehouse)
    return Answered(
        question=question,
        aim=question.aim,
        known=known,
        answer=found,
        candidates=chosen,
        decision=decision,
        rules=rules,
        says=list(_says(everything, decision, question.aim)),
        measurements=measurements(chosen, question.aim, scenarios),
        offered=prices,
        coverage=_coverage(found, everything, chosen),
        recommendation_id=warehouse.record_recommendation(record),
    )


def _coverage(found: Answer, everything: Sequence[Ranked], chosen: Sequence[Candidate]) -> Coverage:
    scenarios = {one.scenario.scenario_id for one in found.forecasts}
    scenarios |= {one.scenario.scenario_id for one in found.refused if not one.foreign}
    return Coverage(
        asked=len(scenarios),
        forecast=len({one.scenario_id for _, one in everything}),
        counted=len({one.scenario_id for one in chosen}),
        is_judged=not all(rank[0] for rank, _ in everything),
        has_evidence=any(one.has_evidence for one in chosen),
    )


def _says(everything: Sequence[Ranked], decision: Decision, aim: Aim) -> Iterator[Says]:
    """Yield what each system would choose, in the order in which they were asked."""
    by_system: dict[str, list[Ranked]] = {}
    for rank, one in everything:
        by_system.setdefault(one.system, []).append((rank, one))
    chosen = decision.choice and decision.choice.key
    for name, ranked in by_system.items():
        mine = [one for _, one in ranked]
        yield Says(
            system=name,
            is_judged=not all(rank[0] for rank, _ in ranked),
            candidates=len(mine),
            choice=best(mine, aim),
            of_choice=next((one.train_s for one in mine if one.key == chosen), None),
        )


def reasons(found: Answer) -> Counter[str]:
    """Return how many scenarios each system refuses for each reason, those of others left out."""
    return Counter(f"{one.system.name}: {one.reason}" for one in found.refused if not one.foreign)


def _nothing(found: Answer, question: Question) -> str:
    """Say why there is no forecast: what most scenarios lack."""
    told = "; ".join(text for text, _ in reasons(found).most_common(2))
    return (
        f"no system forecasts {question.dnn} on any of these nodes ({told}); `stepcast predict` "
        "with the same network says what to measure"
    )


def _record(
    question: Question,
    capacity: Mapping[str, int],
    market: Markets,
    as_of: datetime,
    found: Answer,
    decision: Decision,
    prices: Offered,
    warehouse: Warehouse,
) -> Recommendation:
    limits = {"minimize", "max_hours", "budget_usd", "max_usd_per_hour", "late"}
    asked = question.model_dump(mode="json")
    return Recommendation(
        system=NAME,
        backend=found.place.backend,
        job={name: value for name, value in asked.items() if name not in limits},
        objective=question.minimize,
        constraints={name: asked[name] for name in sorted(limits - {"minimize"})}
        | {"capacity": dict(capacity), "market": market, "as_of": as_of.isoformat()},
        choice=None if decision.choice is None else _written(decision.choice),
        alternatives=tuple(_written(one) for one in decision.alternatives),
        price_snapshot=warehouse.record_prices(prices.prices),
        fit_ids=tuple(sorted({one.fit.fit_id for one in found.forecasts})),
        code_version=code_version(),
        made_at=datetime.now(UTC),
    )


def _written(one: Candidate) -> dict[str, object]:
    time_s, cost_usd, _ = one.outcome
    return {
        "scenario_id": one.scenario_id,
        "nodes": one.label,
        "market": one.market,
        "system": one.system,
        "train_s": one.train_s,
        "time_s": time_s,
        "cost_usd": cost_usd,
        "past_errors": one.ratios.basis if one.ratios else None,
    }
