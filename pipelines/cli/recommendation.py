"""Answers of `recommend` as one record, whose JSON is its own."""

import json
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Annotated, Any, Self

from pydantic import BeforeValidator

from forecasting.decisions.answer import Coverage, DecisionAnswer
from forecasting.forecast import ScenarioForecast
from forecasting.options import RentalOptions
from forecasting.standing import StandsOn, standing
from models.choice.candidates import Candidate
from models.choice.limits import Limit
from models.choice.offers import Span
from pipelines.cli import evidence
from pipelines.cli.answers import VERSION, ForecastRow, RefusalRow, Row, path
from pipelines.cli.device_answer import efficiency
from warehouse.records import Backend, Market, NodeGroup, Price, Record


def _types(groups: Iterable[NodeGroup]) -> str:
    return " + ".join(group.node_type for group in groups)


class CandidateRow(Row):
    """A way to run the job; probabilities of breaking a limit are at most so large.

    `step_s` to `measure_command` are of its forecast, where its system tells.
    """

    key: str
    scenario_id: str
    nodes: str = path("label")
    node_type: str
    workers: int
    step_samples: int | None
    market: Market
    system: str
    training: str
    train_s: float
    time_s: Span
    cost_usd: Span
    usd_per_hour: float
    late_at_most: float | None
    over_budget_at_most: float | None
    keeps_limits: bool
    checkpoint_every_s: float | None = path("expected", "checkpoint_every_s")
    past_errors: str | None = path("ratios", "basis", default=None)
    step_s: float | None
    samples_per_s: float
    mfu: float | None
    device: str | None = path("detail", "device", default=None)
    gpus: int | None = path("detail", "gpus", default=None)
    binds: str | None = path("detail", "binds", default=None)
    needed_bytes: float | None = path("detail", "needed_bytes", default=None)
    memory_bytes: float | None = path("detail", "memory_bytes", default=None)
    rests_on: str | None = path("detail", "rests_on", default=None)
    stands_on: StandsOn | None = path("standing", "stands_on", default=None)
    past_error_percent: float | None = path("standing", "past_error_percent", default=None)
    past_error_n: int | None = path("standing", "past_error_n", default=None)
    past_error_of: str | None = path("standing", "past_error_of", default=None)
    measure_command: str | None = path("standing", "measure_command", default=None)

    @classmethod
    def of(cls, answer: DecisionAnswer, candidate: Candidate) -> Self:
        """Return the row of a candidate."""
        forecast, limits = answer.forecast_of(candidate), answer.question.objective.limits
        samples_per_s = answer.question.samples / candidate.train_s
        time_s, cost_usd = candidate.spans(answer.level)

        def chance(limit: Limit) -> float | None:
            return candidate.chance_of_exceeding(limits, limit) if candidate.has_evidence else None

        reckoned = {
            "scenario_id": candidate.scenario_id,
            "node_type": " + ".join(candidate.node_types),
            "time_s": time_s,
            "cost_usd": cost_usd,
            "late_at_most": chance("deadline_s"),
            "over_budget_at_most": chance("budget_usd"),
            "keeps_limits": answer.question.objective.admits(candidate),
            "step_s": candidate.step_samples and candidate.step_samples / samples_per_s,
            "samples_per_s": samples_per_s,
            "mfu": efficiency(forecast)["mfu"] if forecast else None,
            "standing": standing(forecast) if forecast else None,
            "detail": forecast and forecast.detail,
        }
        return cls.model_validate(SimpleNamespace(**vars(candidate) | reckoned))


class MeasurementRow(Row):
    """What measuring a candidate takes, and what it is worth."""

    key: str = path("candidate", "key")
    nodes: str = path("candidate", "label")
    probe: str
    minutes: float
    usd: float
    changes_the_choice: float = path("worth", "chance")
    saving: float = path("worth", "saving")


class CrowdedRow(Row):
    """Nodes that lack memory for a step; what the job would take and cost if it fitted."""

    scenario_id: str = path("scenario", "scenario_id")
    node_type: Annotated[str, BeforeValidator(_types)] = path("scenario", "worker_groups")
    workers: int = path("scenario", "strategy", "workers")
    system: str = path("system", "name")
    device: str | None = path("detail", "device", default=None)
    needed_bytes: float | None = path("detail", "needed_bytes", default=None)
    memory_bytes: float | None = path("detail", "memory_bytes", default=None)
    largest_batch_size: int | None = path("detail", "largest_batch_size", default=None)
    time_s: float | None = path("if_it_fitted", "outcome", "time_s", default=None)
    cost_usd: float | None = path("if_it_fitted", "outcome", "cost_usd", default=None)

    @classmethod
    def of(cls, forecast: ScenarioForecast, answer: DecisionAnswer) -> Self:
        """Return the row of a forecast that has no room."""
        if_it_fitted = answer.if_it_fitted(forecast)
        return cls.model_validate(SimpleNamespace(**vars(forecast), if_it_fitted=if_it_fitted))


class RecommendAnswer(Record):
    """What to rent; `model` is the user's own that was asked about.

    `forecasts` are those of the choice, its alternatives and the front; `without_forecast` says why
    ways to run the job have none, and how many.
    """

    version: int = VERSION
    model: Mapping[str, Any] | None
    question: Mapping[str, Any]
    coverage: Coverage
    choice: CandidateRow | None
    alternatives: tuple[CandidateRow, ...]
    relaxations: tuple[str, ...]
    candidates: tuple[CandidateRow, ...]
    front: tuple[str, ...]
    measurements: tuple[MeasurementRow, ...]
    prices: tuple[Price, ...]
    preemptions_per_node_hour: float
    cautions: tuple[str, ...]
    out_of_memory: tuple[CrowdedRow, ...]
    left_out: Mapping[str, str]
    refused: tuple[RefusalRow, ...]
    without_forecast: Mapping[str, int]
    forecasts: tuple[ForecastRow, ...]
    backend: Backend
    host_id: str
    this_host: bool
    recommendation_id: str

    @classmethod
    def of(
        cls, answer: DecisionAnswer, model: Mapping[str, Any] | None, *, refused: bool = True
    ) -> Self:
        """Return an answer for programs; `refused`: with a row of each refusal of each system."""
        decision, chosen_host, offered = answer.decision, answer.answer.chosen_host, answer.offered
        known = {"image_size": answer.known.image_size, "link_mbps": answer.known.link_mbps}

        told = [each for each in (decision.choice, *decision.alternatives, *answer.front) if each]

        return cls(
            model=model,
            question=answer.question.model_dump(mode="json") | known,
            coverage=answer.coverage,
            choice=decision.choice and CandidateRow.of(answer, decision.choice),
            alternatives=tuple(CandidateRow.of(answer, each) for each in decision.alternatives),
            relaxations=tuple(decision.relaxations),
            candidates=tuple(CandidateRow.of(answer, each) for each in answer.candidates),
            front=tuple(candidate.key for candidate in answer.front),
            measurements=tuple(map(MeasurementRow.model_validate, answer.measurements)),
            prices=tuple(offered.prices),
            preemptions_per_node_hour=offered.preemptions_per_node_hour,
            cautions=tuple(evidence.cautions(answer.answer)),
            out_of_memory=tuple(
                CrowdedRow.of(each, answer) for each in answer.answer.out_of_memory
            ),
            left_out=dict(answer.left_out or {}),
            refused=tuple(map(RefusalRow.model_validate, answer.answer.refused if refused else ())),
            without_forecast=answer.without_forecast,
            forecasts=tuple(
                ForecastRow.of(forecast)
                for each in dict.fromkeys(told)
                if (forecast := answer.forecast_of(each))
            ),
            backend=chosen_host.backend,
            host_id=chosen_host.host_id,
            this_host=chosen_host.is_here,
            recommendation_id=answer.recommendation_id,
        )


def answer_page(
    answer: DecisionAnswer, model: Mapping[str, Any] | None, options: RentalOptions
) -> str:
    """Return an answer as a page of one file, which loads nothing."""
    from reports.html import ask_page

    body = options.model_dump(mode="json", exclude_defaults=True)
    told = RecommendAnswer.of(answer, model, refused=False).model_dump_json()
    return ask_page(f'{{"body":{json.dumps(body)},"answer":{told}}}')
