"""Answers of `recommend` as one record, whose JSON is its own."""

import json
from collections.abc import Mapping
from typing import Any, Self

from forecasting.decisions.answer import Coverage, DecisionAnswer, Measurement
from forecasting.forecast import ScenarioForecast
from forecasting.options import RentalOptions
from forecasting.standing import Standing, StandsOn, standing
from models.choice.candidates import Candidate
from models.choice.limits import Limit
from models.choice.offers import Span
from pipelines.cli import evidence
from pipelines.cli.answers import VERSION, ForecastRow, RefusalRow
from pipelines.cli.device_answer import efficiency
from warehouse.records import Backend, Market, Price, Record

_OF_DETAIL = ("device", "gpus", "binds", "needed_bytes", "memory_bytes", "rests_on")
"""What a forecast of GPUs consists of that a row has, too."""


class CandidateRow(Record):
    """A way to run the job; probabilities of breaking a limit are at most so large.

    `step_s` to `measure_command` are of its forecast, where its system tells.
    """

    key: str
    scenario_id: str
    nodes: str
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
    checkpoint_every_s: float | None
    past_errors: str | None
    step_s: float | None
    samples_per_s: float
    mfu: float | None
    device: str | None
    gpus: int | None
    binds: str | None
    needed_bytes: float | None
    memory_bytes: float | None
    rests_on: str | None
    stands_on: StandsOn | None
    past_error_percent: float | None
    past_error_n: int | None
    past_error_of: str | None
    measure_command: str | None

    @classmethod
    def of(cls, answer: DecisionAnswer, candidate: Candidate) -> Self:
        """Return the row of a candidate."""
        forecast = answer.forecast_of(candidate)
        detail = (forecast and forecast.detail) or {}
        samples_per_s = answer.question.samples / candidate.train_s
        time_s, cost_usd = candidate.spans(answer.level)

        def chance(limit: Limit) -> float | None:
            limits = answer.objective.limits
            return candidate.chance_of_exceeding(limits, limit) if candidate.has_evidence else None

        same = (
            *("key", "scenario_id", "workers", "step_samples", "market", "system", "training"),
            *("train_s", "usd_per_hour"),
        )
        return cls(
            **(
                standing(forecast).model_dump()
                if forecast
                else dict.fromkeys(Standing.model_fields)
            ),
            **{name: getattr(candidate, name) for name in same},
            nodes=candidate.label,
            node_type=" + ".join(candidate.node_types),
            time_s=time_s,
            cost_usd=cost_usd,
            late_at_most=chance("deadline_s"),
            over_budget_at_most=chance("budget_usd"),
            keeps_limits=answer.objective.admits(candidate),
            checkpoint_every_s=candidate.expected.checkpoint_every_s,
            past_errors=candidate.ratios.basis if candidate.ratios else None,
            step_s=candidate.step_samples and candidate.step_samples / samples_per_s,
            samples_per_s=samples_per_s,
            mfu=efficiency(forecast)["mfu"] if forecast else None,
            **{name: detail.get(name) for name in _OF_DETAIL},
        )


class MeasurementRow(Record):
    """What measuring a candidate takes, and what it is worth."""

    key: str
    nodes: str
    probe: str
    minutes: float
    usd: float
    changes_the_choice: float
    saving: float

    @classmethod
    def of(cls, measurement: Measurement) -> Self:
        """Return the row of a measurement."""
        return cls(
            key=measurement.candidate.key,
            nodes=measurement.candidate.label,
            probe=measurement.probe,
            minutes=measurement.minutes,
            usd=measurement.usd,
            changes_the_choice=measurement.worth.chance,
            saving=measurement.worth.saving,
        )


class CrowdedRow(Record):
    """Nodes that lack memory for a step; what the job would take and cost if it fitted."""

    scenario_id: str
    node_type: str
    workers: int
    system: str
    device: str | None
    needed_bytes: float | None
    memory_bytes: float | None
    largest_batch_size: int | None
    time_s: float | None
    cost_usd: float | None

    @classmethod
    def of(cls, forecast: ScenarioForecast, answer: DecisionAnswer) -> Self:
        """Return the row of a forecast that has no room."""
        if_it_fitted = answer.if_it_fitted(forecast)
        names = ("device", "needed_bytes", "memory_bytes", "largest_batch_size")
        return cls(
            scenario_id=forecast.scenario.scenario_id,
            node_type=" + ".join(group.node_type for group in forecast.scenario.worker_groups),
            workers=forecast.scenario.strategy.workers,
            system=forecast.system.name,
            **{name: (forecast.detail or {}).get(name) for name in names},
            time_s=if_it_fitted and if_it_fitted.outcome.time_s,
            cost_usd=if_it_fitted and if_it_fitted.outcome.cost_usd,
        )


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
            measurements=tuple(map(MeasurementRow.of, answer.measurements)),
            prices=tuple(offered.prices),
            preemptions_per_node_hour=offered.preemptions_per_node_hour,
            cautions=tuple(evidence.cautions(answer.answer)),
            out_of_memory=tuple(
                CrowdedRow.of(each, answer) for each in answer.answer.out_of_memory
            ),
            left_out=dict(answer.left_out or {}),
            refused=tuple(map(RefusalRow.of, answer.answer.refused)) if refused else (),
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
