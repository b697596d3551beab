"""Assets of what systems recommend: nodes for a job of each network that a study tests."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, ResourceParam, asset

from assets.metadata import OWNERS, comments, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.studied import Studied
from forecasting.advisers import ADVISERS, Adviser
from forecasting.recommending import Market, recommend
from forecasting.resting import resting_in
from forecasting.speeds import examples_per_step
from models.choosing.advice import Question
from profilers.probe import Need
from studies.progress import Progress
from studies.rounds import Round
from studies.words import some
from warehouse.asks import Refusal
from warehouse.records import BadInput, Scenario

ITERATIONS = 1_000
"""Steps of the job that is asked about: of the largest test scenario that a system forecasts."""
_SCHEMA = {
    "dnn": pl.String,
    "global_batch": pl.Int64,
    "iterations": pl.Int64,
    "choice": pl.String,
    "hours": pl.Float64,
    "cost_usd": pl.Float64,
    "recommendation_id": pl.String,
}


def recommendations(of: Studied) -> list[AssetsDefinition]:
    """Return an asset for each system of a study that recommends; nothing where none does."""
    return [_asset(of, ADVISERS[one.name]) for one in of.systems if one.name in ADVISERS]


def _asset(of: Studied, adviser: Adviser) -> AssetsDefinition:
    system = adviser.system

    @asset(
        key=of.key("recommendations", system.name),
        description=f"The cheapest nodes for {ITERATIONS:,} steps of each network.",
        deps=[of.key("fits", system.name)],
        group_name=of.name,
        owners=OWNERS,
        kinds={"recommendation", "duckdb"},
        pool="warehouse",
        code_version=system.version,
        metadata=of_table("pred.recommendation"),
    )
    def recommended(
        rounds: RoundsResource, warehouse: WarehouseResource, progress: ResourceParam[Progress]
    ) -> MaterializeResult:
        round_, house = rounds.latest(of.path), warehouse.open()
        rows, refused, now = [], defaultdict(list), datetime.now(UTC)
        for question, capacity in asked_of(round_, adviser):
            market = Market(capacity, "on_demand", now)
            progress.say(f"what to rent for {question.dnn} by {system.name}")
            try:
                found = recommend(house, adviser, question, market, backend=round_.backend)
            except BadInput as error:
                refused[str(error)].append(question.dnn)
                continue
            choice = found.advice.choice
            told: tuple[str, float | None, float | None] = ("none", None, None)
            if choice is not None:
                told = choice.label, choice.time_s.value / 3600, choice.cost_usd.value
            asked = question.dnn, question.global_batch, question.iterations
            rows.append((*asked, *told, found.recommendation_id))
        for reason, dnns in refused.items():
            progress.warn(f"{system.name} recommends nothing for {some(dnns)}: {reason}")
        frame = pl.DataFrame(rows, _SCHEMA, orient="row")
        return MaterializeResult(
            metadata=of_frame(frame, round_, (), comments(warehouse, "pred.recommendation"))
        )

    return recommended


def asked_of(round_: Round, adviser: Adviser) -> Iterator[tuple[Question, Mapping[str, int]]]:
    """Yield what is asked of each network, and how many nodes of each type there are to rent.

    The job is the largest test scenario that the system forecasts, for the least money. On offer
    are as many nodes of each type as any such scenario of the network on the same links has.
    """
    found: dict[str, list[Scenario]] = defaultdict(list)
    for curve in round_.study.curves:
        if not curve.is_judged:
            continue
        rested = resting_in(round_, adviser.system, curve)
        for scenario, rests in rested.items():
            if not isinstance(rests, Refusal) and _types(scenario) <= _profiled(rests):
                found[scenario.workload.dnn].append(scenario)
    for scenarios in found.values():
        largest = max(scenarios, key=examples_per_step)
        yield _question(largest), _capacity(one for one in scenarios if _alike(one, largest))


def _question(scenario: Scenario) -> Question:
    return Question(
        dnn=scenario.workload.dnn,
        image_size=scenario.workload.image_size,
        global_batch=examples_per_step(scenario),
        iterations=ITERATIONS,
        minimize="cost",
        link_mbps=scenario.link_mbps,
    )


def _alike(one: Scenario, other: Scenario) -> bool:
    """Tell whether scenarios of a network are on the same links, with images of the same size."""
    return (one.link_mbps, one.workload.image_size) == (other.link_mbps, other.workload.image_size)


def _capacity(scenarios: Iterable[Scenario]) -> Mapping[str, int]:
    """Return as many nodes of each type as any of some scenarios has."""
    found: dict[str, int] = {}
    for scenario in scenarios:
        for group in scenario.worker_groups:
            found[group.node_type] = max(group.count, found.get(group.node_type, 0))
    return found


def _types(scenario: Scenario) -> set[str]:
    return {group.node_type for group in scenario.worker_groups}


def _profiled(rests: Iterable[Need]) -> set[str]:
    """Return the node types that runs are about on which a forecast rests."""
    return {group.node_type for need in rests for group in need.nodes}
