"""Assets of what systems recommend: nodes for a job of each network that a study tests."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, ResourceParam, asset

from assets.metadata import OWNERS, comments, of_frame, of_table
from assets.resources import RoundsResource, WarehouseResource
from assets.studied import Studied
from forecasting.advisers import ADVISERS, Adviser
from forecasting.recommending import Market, recommend
from models.choosing.advice import Question
from studies.progress import Progress
from studies.rounds import Round
from studies.words import some
from warehouse.records import BadInput

ITERATIONS = 1_000
"""Steps of the job that is asked about, of the largest global batch that the study tests."""
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
        market = Market(_capacity(round_), "on_demand", datetime.now(UTC))
        rows, refused = [], defaultdict(list)
        for question in _questions(round_, adviser).values():
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


def _questions(round_: Round, adviser: Adviser) -> Mapping[str, Question]:
    """Return what is asked of each network: its largest test scenario, for the least money."""
    found: dict[str, Question] = {}
    for curve in round_.study.curves:
        scenario = curve.scenarios(round_.backend)[-1]
        if not curve.is_judged or scenario.workload.framework != adviser.framework:
            continue
        devices = scenario.strategy.devices_per_node
        load = scenario.workload
        batch = devices * sum(
            group.count * (group.batch_size or load.batch_size) for group in scenario.worker_groups
        )
        known = found.get(load.dnn)
        if known is None or batch > known.global_batch:
            found[load.dnn] = Question(
                dnn=load.dnn,
                image_size=load.image_size,
                global_batch=batch,
                iterations=ITERATIONS,
                minimize="cost",
                link_mbps=scenario.link_mbps,
            )
    return found


def _capacity(round_: Round) -> Mapping[str, int]:
    """Return as many nodes of each type as any test scenario has."""
    found: dict[str, int] = {}
    for curve in round_.study.curves:
        for scenario in curve.scenarios(round_.backend) if curve.is_judged else ():
            for group in scenario.worker_groups:
                found[group.node_type] = max(group.count, found.get(group.node_type, 0))
    return found
