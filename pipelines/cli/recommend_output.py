"""What `stepcast recommend` prints: one answer of all systems, in words and for programs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import typer

from forecasting.decisions.answer import (
    DecisionAnswer,
    Measurement,
    SystemChoice,
    count_refusals,
)
from models.choice.candidates import Candidate
from models.choice.limits import LIMITS, Limit, Limits
from pipelines.cli import evidence
from pipelines.cli.predict_output import refusal_as_json
from pipelines.cli.prices import prices_in_words
from pipelines.cli.tables import TableColumn, print_rows, print_text
from studies.messages import count
from warehouse.records import on_images

_SAID: Mapping[Limit, str] = {
    "deadline_s": "late",
    "budget_usd": "over budget",
    "usd_per_hour": "too dear an hour",
}
_COLUMNS = (
    TableColumn("by"),
    TableColumn("nodes", is_key=True),
    TableColumn("hours", is_key=True, is_number=True),
    TableColumn("cost", is_key=True, is_number=True),
    TableColumn("system"),
    TableColumn("limits"),
    TableColumn("past errors"),
)
_MOST_REASONS = 3
"""How many reasons of refusals are told; JSON has all."""


def print_decision(found: DecisionAnswer, *, with_front: bool) -> None:
    """Print choice, alternatives and rules of thumb, then how surely, and what would change it."""
    for line in _question(found):
        print_text(line)
    print_rows(_COLUMNS, _cells(found, list(_rows(found))))
    if with_front:
        print_text("What more money buys: nothing else within the limits is faster and cheaper")
        print_rows(_COLUMNS, _cells(found, [("", one) for one in found.front]))
    for lines in (_agreement, _measurements, _overheads, _origin, _refusals):
        for line in lines(found):
            print_text(line)


def _question(found: DecisionAnswer) -> Iterator[str]:
    asked, choice = found.question, found.decision.choice
    limits = "".join(_limits(found))
    job = f"{asked.samples:,} samples of {on_images(asked.dnn, found.known.image_size)}"
    yield f"{job}{limits}: least {asked.minimize}"
    yield _known(found)
    if choice is None and not any(candidate.has_evidence for candidate in found.candidates):
        yield "No way to run it is known to keep the limits: no past errors say how surely"
    elif choice is None:
        relaxed = " or ".join(found.decision.relaxations) or "no single limit mends it"
        yield f"No way to run it keeps the limits; {relaxed}"
    else:
        hours, cost_usd = _hours(choice.outcome.time_s), choice.outcome.cost_usd
        yield f"Rent {choice.label}: {hours}, ${cost_usd:.4g}"


def _known(found: DecisionAnswer) -> str:
    """Return of how many ways to run the job something is known, and whether that was judged."""
    known, on = found.coverage, f"on backend {found.answer.place.backend}"
    told = f"{known.counted} of {count(known.asked, 'way')} to run it"
    told += " has a forecast" if known.counted == 1 else " have forecasts"
    if known.is_judged:
        told += f" of systems that have been judged {on}"
        if (more := known.forecast - known.counted) > 0:
            told += f"; {more} more only of systems that nobody judged there, so not counted"
    elif known.has_evidence:
        told += f"; none or too few of their systems' forecasts have been judged {on}: intervals "
        told += "and probabilities are guesses"
    else:
        told += f"; none has been judged {on}, so nothing says how far off they are"
    return f"{told}."


def _limits(found: DecisionAnswer) -> Iterator[str]:
    asked = found.question
    if asked.max_hours is not None:
        yield f", within {asked.max_hours:g} hours"
    if asked.budget_usd is not None:
        yield f", for ${asked.budget_usd:g} at most"
    if asked.max_usd_per_hour is not None:
        yield f", at ${asked.max_usd_per_hour:g} an hour at most"
    if asked.late is not None and (asked.max_hours or asked.budget_usd):
        yield f" with a probability of {100 * (1 - asked.late):.0f} %"


def _rows(found: DecisionAnswer) -> Iterator[tuple[str, Candidate | None]]:
    if found.decision.choice is not None:
        yield "choice", found.decision.choice
    for alternative in found.decision.alternatives:
        yield "next best" if found.aim.admits(alternative) else "nearest", alternative
    for rule, taken in found.rules.items():
        yield ("cheapest an hour" if rule == "cheapest" else rule), taken


def _cells(found: DecisionAnswer, rows: Sequence[tuple[str, Candidate | None]]) -> list[list[str]]:
    at = found.level
    return [
        [name, "no forecast of one node", "", "", "", "", ""]
        if one is None
        else [
            name,
            one.label,
            one.span("time_s", at).times(1 / 3600).in_words("{:.3g}"),
            one.span("cost_usd", at).in_words("${:.3g}"),
            one.system,
            ", ".join(_risks(found, one)) or "kept",
            one.ratios.basis if one.ratios else "",
        ]
        for name, one in rows
    ]


def _risks(found: DecisionAnswer, one: Candidate) -> Iterator[str]:
    """Yield the probability of exceeding each limit that is asked for, where it is known."""
    for limit in LIMITS:
        if found.aim.limits.of(limit) is not None:
            chance = one.chance_of_exceeding(found.aim.limits, limit)
            if limit != "usd_per_hour":
                said = _SAID[limit]
                yield _risk(said, chance) if one.has_evidence else f"{said}: not known"
            elif chance:
                yield _SAID[limit]


def _risk(said: str, chance: float) -> str:
    """Return the probability of exceeding a limit, of which only an upper bound is known."""
    if chance == 1:
        return f"{said} by all that is known"
    return f"P({said}) < 1 %" if chance < 0.01 else f"P({said}) ≤ {100 * chance:.0f} %"


def _agreement(found: DecisionAnswer) -> Iterator[str]:
    """Yield whether the systems choose the same, and how far their forecasts of it lie apart."""
    choice = found.decision.choice
    unjudged = [f"{said.system} ({_chosen(said)})" for said in found.says if not said.is_judged]
    several = [said for said in found.says if said.is_judged and said.candidates > 1]
    if choice is not None and len(several) > 1:
        same = [one for one in several if one.choice and one.choice.key == choice.key]
        judged = f"{count(len(several), 'system')} that have been judged"
        yield f"Of {judged}, {len(same)} would choose this."
        for one in several:
            if one not in same:
                yield f"  {one.system} would rent {_chosen(one)}"
        yield from _apart(found, choice)
    if unjudged and found.coverage.is_judged:
        yield f"Never judged like this on this backend, so not counted: {', '.join(unjudged)}."
    if blind := dict.fromkeys(
        candidate.system for candidate in found.candidates if not candidate.has_evidence
    ):
        yield (
            f"{', '.join(blind)}: no evidence of how wrong forecasts of a host with few steps or "
            "none are, so no interval and no probability."
        )
    yield from evidence.evidence_lines(found.answer)


def _apart(found: DecisionAnswer, choice: Candidate) -> Iterator[str]:
    forecasts = {
        said.system: said.of_choice for said in found.says if said.of_choice and said.is_judged
    }
    if len(forecasts) > 1:
        least, most = min(forecasts.items(), key=_second), max(forecasts.items(), key=_second)
        yield (
            f"They say that training on {choice.label} takes {_hours(least[1])} ({least[0]}) to "
            f"{_hours(most[1])} ({most[0]})."
        )


def _second(item: tuple[str, float]) -> float:
    return item[1]


def _chosen(one: SystemChoice) -> str:
    return "nothing" if one.choice is None else one.choice.label


def _measurements(found: DecisionAnswer) -> Iterator[str]:
    """Yield which measurement might change the choice, and what it is worth."""
    if not found.measurements:
        if all(candidate.has_evidence for candidate in found.candidates):
            yield "No measurement of a single one of these would change the choice."
        return
    yield "What would change the choice:"
    by_cost = found.question.minimize == "cost"
    for measurement in found.measurements:
        saving = measurement.worth.saving
        saved = f"${saving:.2g}" if by_cost else _hours(saving)
        yield (
            f"  measure {measurement.candidate.label} ({measurement.probe}, about "
            f"{measurement.minutes:.0f} min, ${measurement.usd:.2g}): another choice with a "
            f"probability of {100 * measurement.worth.chance:.0f} %"
            + (f", better by {saved} in the mean" if saving > 0 else "")
        )


def _overheads(found: DecisionAnswer) -> Iterator[str]:
    """Yield what comes to training."""
    asked, one = found.question.overheads, found.decision.choice
    yield (
        f"Beside training: launch {asked.launch_s / 60:g} min, loading {asked.load_s / 60:g} min, "
        f"a checkpoint {asked.checkpoint_s:g} s."
    )
    if one is not None and one.expected.checkpoint_every_s is not None:
        every = one.expected.checkpoint_every_s / 60
        more = one.expected.factor - 1
        yield f"The choice writes one every {every:.3g} min, and takes {100 * more:.1f} % longer."
    for node_type, (rate, basis) in found.offered.preemptions.items():
        yield f"A spot node of {node_type} is lost {rate:.2g} times an hour ({basis})."


def _origin(found: DecisionAnswer) -> Iterator[str]:
    yield from found.answer.place.in_words()
    yield f"Prices: {prices_in_words(found.offered.prices)}."
    scenarios = {forecast.scenario for forecast in found.answer.forecasts}
    unsaid = found.coverage.asked - len(scenarios)
    lacking = f"; no system forecasts {unsaid} more" if unsaid else ""
    yield (
        f"{count(len(scenarios), 'scenario')}, {count(len(found.answer.forecasts), 'forecast')} of "
        f"{count(len(found.says), 'system')}{lacking}."
    )
    asynchronous = {
        candidate.scenario_id
        for candidate in found.candidates
        if "async_parameter_server" in candidate.training
    }
    if len(asynchronous) not in (0, len(scenarios)):
        yield "Asynchronous steps use older gradients: a sample there may teach less."
    yield f"Recommendation {found.recommendation_id}, by {count(len(_fits(found)), 'fit')}."


def _refusals(found: DecisionAnswer) -> Iterator[str]:
    """Yield the most common reasons why systems forecast nothing, and how many others there are."""
    refused = count_refusals(found.answer)
    for reason, scenarios in refused.most_common(_MOST_REASONS):
        yield f"{reason} ({count(scenarios, 'scenario')})"
    if (more := len(refused) - _MOST_REASONS) > 0:
        yield f"{count(more, 'more reason')} to forecast nothing; --json has all refusals."


def _fits(found: DecisionAnswer) -> set[str]:
    return {forecast.fit.fit_id for forecast in found.answer.forecasts}


def _hours(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds / 60:.3g} min"
    return f"{timedelta(seconds=seconds) / timedelta(hours=1):.3g} h"


# The same as one JSON object.


Json = dict[str, Any]


def print_json(found: DecisionAnswer, model: Mapping[str, object] | None) -> None:
    """Print an answer as one JSON object; of a model of the user's own, with what it is."""
    place, decision = found.answer.place, found.decision
    known = {"image_size": found.known.image_size, "link_mbps": found.known.link_mbps}
    told = {
        **({} if model is None else {"model": model}),
        "question": found.question.model_dump(mode="json") | known,
        "coverage": asdict(found.coverage),
        "choice": _candidate_as_json(found, decision.choice),
        "alternatives": [
            _candidate_as_json(found, alternative) for alternative in decision.alternatives
        ],
        "relaxations": list(decision.relaxations),
        "rules": {name: _candidate_as_json(found, one) for name, one in found.rules.items()},
        "candidates": [_candidate_as_json(found, candidate) for candidate in found.candidates],
        "front": [one.key for one in found.front],
        "systems": [_system_as_json(choice) for choice in found.says],
        "measurements": [_measurement_as_json(measurement) for measurement in found.measurements],
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


def _candidate_as_json(found: DecisionAnswer, one: Candidate | None) -> Json | None:
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


def _system_as_json(one: SystemChoice) -> Json:
    return {
        "system": one.system,
        "is_judged": one.is_judged,
        "candidates": one.candidates,
        "choice": one.choice.key if one.choice else None,
        "train_s_of_choice": one.of_choice,
    }


def _measurement_as_json(one: Measurement) -> Json:
    return {
        "key": one.candidate.key,
        "nodes": one.candidate.label,
        "probe": one.probe,
        "minutes": one.minutes,
        "usd": one.usd,
        "changes_the_choice": one.worth.chance,
        "saving": one.worth.saving,
    }
