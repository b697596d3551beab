"""What systems with a search propose for a job, as curves that all systems are asked about."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from forecasting.decisions.offers import RegionOffers
from forecasting.decisions.question import JobQuestion, ProfileFacts
from forecasting.question import ForecastAnswer, Say, fit_for_scenario
from models.choice.limits import Job
from models.choice.offers import Offer, ProposedNodes
from models.system import System
from models.systems import SEARCHES
from studies.curve import Curve
from warehouse.records import Market
from warehouse.warehouse import Warehouse


def proposed_curves(
    warehouse: Warehouse,
    question: JobQuestion,
    known: ProfileFacts,
    capacity: Mapping[str, int],
    prices: RegionOffers,
    asked: ForecastAnswer,
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
        asked: what is forecast already of nodes of one type; none of it is proposed again.
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
        **question.aim.limits.model_dump(),
    )
    there = {one.scenario for one in asked.forecasts} | {one.scenario for one in asked.refused}
    found: dict[Curve, None] = {}
    for system in systems:
        search = SEARCHES.get(system)
        types = _profiled(system, capacity, asked)
        if search is None or len(types) < 2:
            continue
        each = _curve(question, known, [ProposedNodes(1, name, 1) for name in types])
        place = asked.place
        fitted = fit_for_scenario(warehouse, system, each, place, known_by=known_by, say=say)
        if fitted is None:
            continue
        scenario = each.scenarios(place.backend)[0]
        for market in prices.markets:
            offers = list(_offers(prices, {name: capacity[name] for name in types}, market))
            for proposal in search(fitted, scenario, job, offers):
                curve = _curve(question, known, proposal)
                if there.isdisjoint(curve.scenarios(place.backend)):
                    found[curve] = None
    return list(found)


def _profiled(system: System, capacity: Mapping[str, int], asked: ForecastAnswer) -> list[str]:
    """Return the node types on offer of which a system lacks no run."""
    lacking = {
        group.node_type
        for one in asked.refused
        if one.system == system and (one.lacking or asked.place.lacks(one.scenario))
        for group in one.scenario.worker_groups
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
    }
    if len(proposal) > 1:
        return Curve.model_validate(common | {"mix": " + ".join(one.label for one in proposal)})
    (one,) = proposal
    alone = {"worker": one.node_type, "workers": one.count, "batch_size": one.batch_size}
    return Curve.model_validate(common | alone)
