"""Forecasts as candidates for a job: what training takes and costs there, and how surely."""

from collections.abc import Sequence

from forecasting.asked.answer import Forecast
from forecasting.decisions.evidence import Evidence
from forecasting.decisions.offered import Offered
from forecasting.decisions.question import Question
from forecasting.speeds import samples_per_s
from models.choosing.candidates import Candidate
from models.choosing.overheads import expected
from models.choosing.ratios import Ratios
from models.system import System
from warehouse.records import BadInput, Market, Scenario

Ranked = tuple[tuple[bool, float, int], Candidate]
"""A candidate with how little its system is trusted: the least comes first."""


def candidates_of(
    forecasts: Sequence[Forecast],
    question: Question,
    prices: Offered,
    evidence: Evidence,
    systems: Sequence[System],
) -> list[Ranked]:
    """Return a candidate for each forecast and market that has prices, with its system's rank.

    Spot nodes that are lost too often to end the job are no candidates.

    Raises:
        BadInput: there is no candidate for that reason.
    """
    places = {system.name: place for place, system in enumerate(systems)}
    found: list[Ranked] = []
    endless: BadInput | None = None
    for one in forecasts:
        if one.value is None or not one.value > 0:
            continue
        errors = evidence.errors(one.system.name, one.split, one.metric.name)
        rank = *errors.rank, places[one.system.name]
        for market in prices.markets:
            try:
                made = _candidate(one, question, prices, market, errors.ratios)
            except BadInput as error:
                endless = error
                continue
            if made is not None:
                found.append((rank, made))
    if endless is not None and not found:
        raise endless
    return found


def _candidate(
    one: Forecast, question: Question, prices: Offered, market: Market, ratios: Ratios
) -> Candidate | None:
    scenario = one.scenario
    hourly = prices.usd_per_hour(scenario, market)
    if hourly is None or one.value is None:
        return None
    (group,) = scenario.worker_groups
    label = f"{group.count} {group.node_type}@{scenario.workload.batch_size}"
    if servers := scenario.strategy.servers:
        label += f" + {servers} {question.server}"
    elif scenario.workload.framework == "tensorflow":
        label += " (TensorFlow)"
    if market == "spot" or len(prices.markets) > 1:
        label += f" {market.replace('_', ' ')}"
    return Candidate(
        key=f"{scenario.scenario_id} {market}",
        label=label,
        system=one.system.name,
        training=training(scenario),
        node_type=group.node_type,
        workers=group.count,
        market=market,
        usd_per_hour=hourly,
        usd_per_worker_hour=prices.usd_of(group.node_type, market),
        train_s=train_s(scenario, one.metric.name, one.value, question.samples),
        expected=expected(question.overheads, prices.preemptions_per_hour(scenario, market)),
        ratios=ratios,
    )


def train_s(scenario: Scenario, metric: str, value: float, samples: int) -> float:
    """Return seconds that training takes.

    Args:
        scenario: what trains.
        metric: step_time_s, or throughput_steps_per_s of all workers.
        value: of the metric.
        samples: of the job.
    """
    speed = samples_per_s(scenario, metric, value)
    assert speed is not None, metric
    return samples / speed


def training(scenario: Scenario) -> str:
    """Return what candidates share that differ in their nodes only, but for servers."""
    strategy = scenario.strategy
    return f"{scenario.workload.framework} {strategy.kind} {strategy.servers}"


def most_trusted(everything: Sequence[Ranked]) -> list[Candidate]:
    """Return one candidate for each scenario and market: by the system that has erred least.

    Those of systems that were never judged are left out, unless there are no others.
    """
    judged = [one for one in everything if not one[0][0]]
    found: dict[str, Ranked] = {}
    for rank, one in judged or everything:
        if one.key not in found or rank < found[one.key][0]:
            found[one.key] = rank, one
    return [one for _, one in found.values()]
