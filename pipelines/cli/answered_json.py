"""One answer of all systems as `stepcast recommend --json` prints it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import typer

from forecasting.decisions.answer import DecisionAnswer, Measurement, SystemChoice
from models.choice.candidates import Candidate
from models.choice.limits import Limit, Limits
from pipelines.cli import evidence
from pipelines.cli.predict_output import refusal_as_json

Json = dict[str, Any]


def print_json(found: DecisionAnswer, model: Mapping[str, object] | None) -> None:
    """Print an answer as one JSON object; of a model of the user's own, with what it is."""
    place, decision = found.answer.place, found.decision
    known = {"image_size": found.known.image_size, "link_mbps": found.known.link_mbps}
    told = {
        **({} if model is None else {"model": model}),
        "question": found.question.model_dump(mode="json") | known,
        "coverage": asdict(found.coverage),
        "choice": _candidate(found, decision.choice),
        "alternatives": [_candidate(found, alternative) for alternative in decision.alternatives],
        "relaxations": list(decision.relaxations),
        "rules": {name: _candidate(found, one) for name, one in found.rules.items()},
        "candidates": [_candidate(found, candidate) for candidate in found.candidates],
        "front": [one.key for one in found.front],
        "systems": [_says(choice) for choice in found.says],
        "measurements": [_measurement(measurement) for measurement in found.measurements],
        "prices": [price.model_dump(mode="json") for price in found.offered.prices],
        "preemptions_per_node_hour": {
            name: {"rate": rate, "basis": basis}
            for name, (rate, basis) in found.offered.preemptions.items()
        },
        "cautions": list(evidence.evidence_lines(found.answer)),
        "refused": [refusal_as_json(one) for one in found.answer.refused],
        "backend": place.backend,
        "host_id": place.host_id,
        "this_host": place.is_here,
        "recommendation_id": found.recommendation_id,
    }
    typer.echo(json.dumps(told, ensure_ascii=False))


def _candidate(found: DecisionAnswer, one: Candidate | None) -> Json | None:
    if one is None:
        return None
    limits, at = found.aim.limits, found.level
    return {
        "key": one.key,
        "scenario_id": one.scenario_id,
        "nodes": one.label,
        "node_type": " + ".join(one.node_types),
        "workers": one.workers,
        "market": one.market,
        "system": one.system,
        "training": one.training,
        "train_s": one.train_s,
        "time_s": one.span("time_s", at).model_dump(mode="json"),
        "cost_usd": one.span("cost_usd", at).model_dump(mode="json"),
        "usd_per_hour": one.usd_per_hour,
        "late_at_most": _chance(limits, one, "deadline_s"),
        "over_budget_at_most": _chance(limits, one, "budget_usd"),
        "keeps_limits": found.aim.admits(one),
        "checkpoint_every_s": one.expected.checkpoint_every_s,
        "past_errors": one.ratios.basis if one.ratios else None,
    }


def _chance(limits: Limits, one: Candidate, limit: Limit) -> float | None:
    """Return the probability of exceeding a limit, 0 to 1; None: nothing says."""
    return one.chance_of_exceeding(limits, limit) if one.has_evidence else None


def _says(one: SystemChoice) -> Json:
    return {
        "system": one.system,
        "is_judged": one.is_judged,
        "candidates": one.candidates,
        "choice": one.choice.key if one.choice else None,
        "train_s_of_choice": one.of_choice,
    }


def _measurement(one: Measurement) -> Json:
    return {
        "key": one.candidate.key,
        "nodes": one.candidate.label,
        "probe": one.probe,
        "minutes": one.minutes,
        "usd": one.usd,
        "changes_the_choice": one.worth.chance,
        "saving": one.worth.saving,
    }
