"""What `stepcast recommend` prints: one answer of all systems, in words and for programs."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from math import exp
from typing import Any

import typer

from forecasting.decisions.answer import (
    DecisionAnswer,
    Measurement,
    SystemChoice,
    count_refusals,
)
from forecasting.decisions.offers import ZonePrices
from forecasting.forecast import ScenarioForecast
from models.choice.candidates import Candidate
from models.choice.limits import LIMITS, Limit, Limits
from models.choice.offers import Span
from pipelines.cli import evidence
from pipelines.cli.predict_output import refusal_as_json
from pipelines.cli.prices import prices_in_words
from pipelines.cli.tables import TableColumn, print_rows, print_text
from pipelines.cli.workload import profile_command
from studies.messages import count, name_some
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
_OF_CATALOGUE = (
    *(TableColumn(title, is_key=True) for title in ("by", "nodes")),
    *(TableColumn(title, is_key=True, is_number=True) for title in ("hours", "cost")),
    TableColumn("limits", is_key=True),
    TableColumn("past errors"),
)
"""Of many node types: short, for one system alone forecasts most of them."""
_GIB = 2**30
_FAR_BATCH = 10
"""Times the batch that was asked for: how many samples training needs is another question there."""
_MOST_REASONS = 3
"""How many reasons of refusals are told; JSON has all."""


def print_decision(answer: DecisionAnswer, *, target: str | None = None) -> None:
    """Print choice, alternatives and rules of thumb, then how surely, and what would change it.

    Args:
        answer: of all systems.
        target: what builds the user's own model; None: it is a network of ours.
    """
    for line in _question(answer):
        print_text(line)
    _print_candidates(answer, list(_rows(answer)))
    if len(answer.front) > 1:
        print_text("What more money buys: nothing else within the limits is faster and cheaper")
        _print_candidates(answer, [("", candidate) for candidate in answer.front])
    for lines in (
        _rooms(answer),
        _agreement(answer),
        _measurements(answer, target),
        _overheads(answer),
        _origin(answer),
        _refusals(answer),
    ):
        for line in lines:
            print_text(line)


def _question(answer: DecisionAnswer) -> Iterator[str]:
    question, choice = answer.question, answer.decision.choice
    limits = "".join(_limits(answer))
    job = f"{question.samples:,} samples of {on_images(question.dnn, answer.known.image_size)}"
    yield f"{job}{limits}: least {question.minimize}"
    yield _known(answer)
    if choice is None and not any(candidate.has_evidence for candidate in answer.candidates):
        yield "No way to run it is known to keep the limits: no past errors say how surely"
    elif choice is None:
        relaxed = " or ".join(answer.decision.relaxations) or "no single limit mends it"
        yield f"No way to run it keeps the limits; {relaxed}"
    else:
        hours, cost_usd = _hours(choice.outcome.time_s), choice.outcome.cost_usd
        yield f"Rent {choice.label}: {hours}, ${_digits(cost_usd, 4)}"


def _known(answer: DecisionAnswer) -> str:
    """Return of how many ways to run the job something is known, and whether that was judged."""
    known, on = answer.coverage, f"on backend {answer.answer.place.backend}"
    text = f"{known.counted} of {count(known.asked, 'way')} to run it"
    text += " has a forecast" if known.counted == 1 else " have forecasts"
    crowded = {forecast.scenario.scenario_id for forecast in answer.out_of_memory}
    if crowded := crowded - {candidate.scenario_id for candidate in answer.candidates}:
        text += f"; {len(crowded)} more lack memory"
    if known.is_judged:
        text += f" of systems that have been judged {on}"
        if (more := known.forecast - known.counted) > 0:
            text += f"; {more} more only of systems that nobody judged there, so not counted"
    elif known.is_of_fits:
        text += f"; none or too few have been judged {on}: intervals and probabilities are as wide "
        text += "as errors on public measurements that fits had not seen, after the fact"
    elif known.has_evidence:
        text += f"; none or too few of their systems' forecasts have been judged {on}: intervals "
        text += "and probabilities are guesses"
    else:
        text += f"; none has been judged {on}, so nothing says how far off they are"
    return f"{text}."


def _limits(answer: DecisionAnswer) -> Iterator[str]:
    question = answer.question
    if question.max_hours is not None:
        yield f", within {question.max_hours:g} hours"
    if question.budget_usd is not None:
        yield f", for ${question.budget_usd:g} at most"
    if question.max_usd_per_hour is not None:
        yield f", at ${question.max_usd_per_hour:g} an hour at most"
    if question.late is not None and (question.max_hours or question.budget_usd):
        yield f" with a probability of {100 * (1 - question.late):.0f} %"


def _rows(answer: DecisionAnswer) -> Iterator[tuple[str, Candidate | None]]:
    if answer.decision.choice is not None:
        yield "choice", answer.decision.choice
    for alternative in answer.decision.alternatives:
        plain = "next best" if answer.objective.admits(alternative) else "nearest"
        yield answer.decision.roles.get(alternative.key, plain), alternative
    for rule, taken in answer.rules.items():
        yield ("cheapest an hour" if rule == "cheapest" else rule), taken


def _print_candidates(answer: DecisionAnswer, rows: Sequence[tuple[str, Candidate | None]]) -> None:
    cells = _cells(answer, rows)
    if not answer.is_of_catalogue:
        print_rows(_COLUMNS, cells)
        return
    at = answer.level
    for row, (_, candidate) in zip(cells, rows, strict=True):
        if candidate is not None:
            row[2] = _short(candidate.span("time_s", at).times(1 / 3600), "")
            row[3] = _short(candidate.span("cost_usd", at), "$")
            row[6] = f"{candidate.system}, {row[6]}"
        del row[4]
    print_rows(_OF_CATALOGUE, cells)


def _short(span: Span, unit: str) -> str:
    """Return a value with its interval behind it, of two digits if these are around the value."""
    value = f"{unit}{_digits(span.value, 3)}"
    if span.low is None or span.high is None:
        return value
    holds = float(f"{span.low:.2g}") <= span.value <= float(f"{span.high:.2g}")
    ends = (_digits(end, 2 if holds else 3) for end in (span.low, span.high))
    return f"{value} ({'–'.join(ends)})"


def _long(span: Span, unit: str) -> str:
    """Return a value with both ends of its interval where they are known."""
    value = f"{unit}{_digits(span.value, 3)}"
    if span.low is None or span.high is None:
        return value
    return f"{value} ({unit}{_digits(span.low, 3)} to {unit}{_digits(span.high, 3)})"


def _digits(value: float, digits: int) -> str:
    """Return a number of so many digits, and of all that stand before its point."""
    shown = float(f"{value:.{digits}g}")
    return f"{value:,.0f}" if shown >= 100 else f"{shown:g}"


def _cells(answer: DecisionAnswer, rows: Sequence[tuple[str, Candidate | None]]) -> list[list[str]]:
    at = answer.level
    is_one_known = any(candidate.workers == 1 for candidate in answer.candidates)
    nothing = "none keeps the limits" if is_one_known else "no forecast of one node"
    return [
        [name, nothing, "", "", "", "", ""]
        if candidate is None
        else [
            name,
            candidate.label,
            _long(candidate.span("time_s", at).times(1 / 3600), ""),
            _long(candidate.span("cost_usd", at), "$"),
            candidate.system,
            ", ".join((*_risks(answer, candidate), *_grown(answer, candidate))) or "kept",
            candidate.ratios.basis if candidate.ratios else "",
        ]
        for name, candidate in rows
    ]


def _risks(answer: DecisionAnswer, candidate: Candidate) -> Iterator[str]:
    """Yield the probability of exceeding each limit that is asked for, where it is known."""
    for limit in LIMITS:
        if answer.objective.limits.of(limit) is not None:
            chance = candidate.chance_of_exceeding(answer.objective.limits, limit)
            if limit != "usd_per_hour":
                event = _SAID[limit]
                yield _risk(event, chance) if candidate.has_evidence else f"{event}: not known"
            elif chance:
                yield _SAID[limit]


def _grown(answer: DecisionAnswer, candidate: Candidate) -> Iterator[str]:
    """Yield how many samples a step has, where that is far from the batch that was asked about."""
    question, samples = answer.question, candidate.step_samples
    asked = (question.batch_size or 0) * question.accumulate
    if asked and samples and samples > _FAR_BATCH * asked:
        yield f"a step has {samples:,} samples, {samples / asked:.0f} times the batch asked for"


def _risk(event: str, chance: float) -> str:
    """Return the probability of exceeding a limit, of which only an upper bound is known."""
    if chance == 1:
        return f"{event} by all that is known"
    return f"P({event}) < 1 %" if chance < 0.01 else f"P({event}) ≤ {100 * chance:.0f} %"


def _agreement(answer: DecisionAnswer) -> Iterator[str]:
    """Yield whether the systems choose the same, and how far their forecasts of it lie apart."""
    choice = answer.decision.choice
    unjudged = [f"{vote.system} ({_chosen(vote)})" for vote in answer.votes if not vote.is_judged]
    several = [vote for vote in answer.votes if vote.is_judged and vote.candidates > 1]
    if choice is not None and len(several) > 1:
        same = [vote for vote in several if vote.choice and vote.choice.key == choice.key]
        judged = f"{count(len(several), 'system')} that have been judged"
        yield f"Of {judged}, {len(same)} would choose this."
        for vote in several:
            if vote not in same:
                yield f"  {vote.system} would rent {_chosen(vote)}"
        yield from _apart(answer, choice)
    if unjudged and answer.coverage.is_judged:
        yield f"Never judged like this on this backend, so not counted: {', '.join(unjudged)}."
    if blind := dict.fromkeys(
        candidate.system for candidate in answer.candidates if not candidate.has_evidence
    ):
        yield (
            f"{', '.join(blind)}: no evidence of how wrong forecasts of a host with few steps or "
            "none are, so no interval and no probability."
        )
    yield from evidence.evidence_lines(answer.answer)


def _apart(answer: DecisionAnswer, choice: Candidate) -> Iterator[str]:
    forecasts = {
        vote.system: vote.of_choice for vote in answer.votes if vote.of_choice and vote.is_judged
    }
    if len(forecasts) > 1:
        least, most = min(forecasts.items(), key=_second), max(forecasts.items(), key=_second)
        yield (
            f"They say that training on {choice.label} takes {_hours(least[1])} ({least[0]}) to "
            f"{_hours(most[1])} ({most[0]})."
        )


def _second(item: tuple[str, float]) -> float:
    return item[1]


def _chosen(vote: SystemChoice) -> str:
    return "nothing" if vote.choice is None else vote.choice.label


def _rooms(answer: DecisionAnswer) -> Iterator[str]:
    """Yield how much memory is lacking, one line for each batch and GPU."""
    lacking: dict[tuple[int, str], list[ScenarioForecast]] = {}
    for forecast in answer.out_of_memory:
        key = forecast.scenario.workload.batch_size, (forecast.detail or {})["device"]
        lacking.setdefault(key, []).append(forecast)
    sharded = {
        (forecast.scenario.workload.batch_size, (forecast.detail or {})["device"])
        for forecast in answer.answer.forecasts
        if forecast.scenario.strategy.kind == "sharded" and forecast.fits_memory
    }
    for (batch_size, device), forecasts in lacking.items():
        details = [forecast.detail or {} for forecast in forecasts]
        needs = sorted({f"{detail['needed_bytes'] / _GIB:.1f}" for detail in details}, key=float)
        memory_gib = details[0]["memory_bytes"] / _GIB
        does = max(
            forecasts, key=lambda forecast: (forecast.detail or {})["largest_batch_size"]
        ).fitting_batch
        if (batch_size, device) in sharded:
            does = "it fits where enough GPUs share the parameters"
        types = dict.fromkeys(
            group.node_type for forecast in forecasts for group in forecast.scenario.worker_groups
        )
        yield (
            f"No room for a batch of {batch_size} on {device} ({name_some(list(types))}): needs "
            f"{' to '.join(dict.fromkeys((needs[0], needs[-1])))} of {memory_gib:.1f} GiB; {does}."
        )


def _measurements(answer: DecisionAnswer, target: str | None) -> Iterator[str]:
    """Yield which measurement might change the choice, and what it is worth."""
    if not answer.measurements:
        if all(candidate.has_evidence for candidate in answer.candidates):
            yield "No measurement of a single one of these would change the choice."
        return
    scenarios = {
        forecast.scenario.scenario_id: forecast.scenario for forecast in answer.answer.forecasts
    }
    yield "What would change the choice:"
    by_cost = answer.question.minimize == "cost"
    for measurement in answer.measurements:
        saving = measurement.worth.saving
        saved = f"${_digits(saving, 2)}" if by_cost else _hours(saving)
        usd = _digits(measurement.usd, 2)
        yield (
            f"  measure {measurement.candidate.label} ({measurement.probe}, about "
            f"{measurement.minutes:.0f} min, ${usd}): another choice with a probability of "
            f"{100 * measurement.worth.chance:.0f} %"
            + (f", better by {saved} in the mean" if saving > 0 else "")
        )
        if target is not None and measurement.candidate.gpu_announced is not None:
            scenario = scenarios[measurement.candidate.scenario_id]
            if scenario.strategy.kind == "single":
                (name,), batch_size = measurement.candidate.node_types, scenario.workload.batch_size
                command = profile_command(target, name, batch_size, answer.question.recipe)
                yield f"    on one of them: `{command}`"


def _overheads(answer: DecisionAnswer) -> Iterator[str]:
    """Yield what comes to training."""
    overheads, choice = answer.question.overheads, answer.decision.choice
    varied = " (half to twice that in nine of ten)" if overheads.launch_s else ""
    yield (
        f"Beside training: launch {overheads.launch_s / 60:g} min{varied}, "
        f"loading {overheads.load_s / 60:g} min, a checkpoint {overheads.checkpoint_s:g} s."
    )
    if choice is not None and choice.expected.checkpoint_every_s is not None:
        every = choice.expected.checkpoint_every_s / 60
        more = choice.expected.factor - 1
        yield f"The choice writes one every {every:.3g} min, and takes {100 * more:.1f} % longer."
    yield from _spot(answer)


def _spot(answer: DecisionAnswer) -> Iterator[str]:
    """Yield how often spot nodes are lost, and what zones ask: of a catalogue, those shown."""
    shown = {
        name
        for _, candidate in _rows(answer)
        if candidate is not None
        for name in candidate.node_types
    }
    for node_type, (rate, basis) in answer.offered.preemptions.items():
        if answer.is_of_catalogue and node_type not in shown:
            continue
        yield f"A spot node of {node_type} is lost {rate:.2g} times an hour ({basis})."
        zones = answer.offered.zones.get(node_type, ())
        if len(zones) > 1 or any(prices.lowest < prices.highest for prices in zones):
            yield f"  {'; '.join(map(_zone_in_words, zones))}"
    choice = answer.decision.choice
    if choice is not None and choice.market == "spot":
        scenario = next(
            forecast.scenario
            for forecast in answer.answer.forecasts
            if forecast.scenario.scenario_id == choice.scenario_id
        )
        hourly = answer.offered.preemptions_per_hour(scenario, "spot")
        lost = 1 - exp(-hourly * choice.expected.time_s(choice.train_s) / 3600)
        yield f"The choice loses a node with a probability of {100 * lost:.2g} %."


def _zone_in_words(prices: ZonePrices) -> str:
    varied = ""
    if prices.lowest < prices.highest:
        varied = f" ({prices.lowest:.3g} to {prices.highest:.3g} in {prices.hours:.0f} h)"
    return f"{prices.zone or 'any zone'} ${prices.usd_per_hour:g}/h{varied}"


def _origin(answer: DecisionAnswer) -> Iterator[str]:
    yield from answer.answer.place.in_words()
    yield from _prices(answer)
    scenarios = {forecast.scenario for forecast in answer.answer.forecasts}
    unsaid = answer.coverage.asked - len(scenarios)
    lacking = f"; no system forecasts {unsaid} more" if unsaid else ""
    if unsaid and answer.question.all_gpus and unsaid == _several_gpus(answer):
        lacking += ", all of several GPUs"
    yield (
        f"{count(len(scenarios), 'scenario')}, {count(len(answer.answer.forecasts), 'forecast')} "
        f"of {count(len(answer.votes), 'system')}{lacking}."
    )
    asynchronous = {
        candidate.scenario_id
        for candidate in answer.candidates
        if "async_parameter_server" in candidate.training
    }
    if len(asynchronous) not in (0, len(scenarios)):
        yield "Asynchronous steps use older gradients: a sample there may teach less."
    yield f"Recommendation {answer.recommendation_id}, by {count(len(_fits(answer)), 'fit')}."


def _prices(answer: DecisionAnswer) -> Iterator[str]:
    """Yield the prices; of a whole catalogue only those of what is shown, and what has none."""
    offered = answer.offered
    prices = offered.prices
    if not answer.is_of_catalogue:
        yield f"Prices: {prices_in_words(prices)}."
        return
    shown = {
        name
        for _, candidate in _rows(answer)
        if candidate is not None
        for name in candidate.node_types
    }
    prices = [price for price in prices if price.node_type in shown]
    more = len({price.node_type for price in offered.prices} - shown)
    yield f"Prices: {prices_in_words(prices)}{f'; {more} more in --json' if more else ''}."
    if "spot" not in offered.markets:
        yield "Spot prices of these: none was observed; `stepcast prices collect` asks AWS."
    reasons: dict[str, list[str]] = {}
    for name, reason in (answer.left_out or {}).items():
        reasons.setdefault(reason, []).append(name)
    if reasons:
        left_out = (f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
        yield f"Not on offer: {'; '.join(left_out)}. Quota and availability are not checked."


def _several_gpus(answer: DecisionAnswer) -> int:
    """Return how many scenarios of several GPUs have no forecast."""
    known = {forecast.scenario.scenario_id for forecast in answer.answer.forecasts}
    return len(
        {
            refusal.scenario.scenario_id
            for refusal in answer.answer.refused
            if not refusal.foreign and refusal.scenario.strategy.kind != "single"
        }
        - known
    )


def _refusals(answer: DecisionAnswer) -> Iterator[str]:
    """Yield the most common reasons why systems forecast nothing, and how many others there are."""
    refused = count_refusals(answer.answer)
    if answer.is_of_catalogue:
        # Most systems know processors alone; those that know some of these GPUs say the most.
        able = {forecast.system.name for forecast in answer.answer.forecasts}
        refused = (
            Counter(
                refusal.in_words for refusal in answer.answer.refused if refusal.system.name in able
            )
            or refused
        )
    for reason, scenarios in refused.most_common(_MOST_REASONS):
        yield f"{reason} ({count(scenarios, 'scenario')})"
    if (more := len(refused) - _MOST_REASONS) > 0:
        yield f"{count(more, 'more reason')} to forecast nothing; --json has all refusals."


def _fits(answer: DecisionAnswer) -> set[str]:
    return {forecast.fit.fit_id for forecast in answer.answer.forecasts}


def _hours(seconds: float) -> str:
    if seconds < 3600:
        return f"{seconds / 60:.3g} min"
    return f"{timedelta(seconds=seconds) / timedelta(hours=1):.3g} h"


# The same as one JSON object.


Json = dict[str, Any]


def print_json(answer: DecisionAnswer, model: Mapping[str, object] | None) -> None:
    """Print an answer as one JSON object; of a model of the user's own, with what it is."""
    place, decision = answer.answer.place, answer.decision
    known = {"image_size": answer.known.image_size, "link_mbps": answer.known.link_mbps}
    fields = {
        **({} if model is None else {"model": model}),
        "question": answer.question.model_dump(mode="json") | known,
        "coverage": asdict(answer.coverage),
        "choice": None if decision.choice is None else candidate_as_json(answer, decision.choice),
        "alternatives": [
            candidate_as_json(answer, alternative) for alternative in decision.alternatives
        ],
        "relaxations": list(decision.relaxations),
        "rules": {
            name: None if candidate is None else candidate_as_json(answer, candidate)
            for name, candidate in answer.rules.items()
        },
        "candidates": [candidate_as_json(answer, candidate) for candidate in answer.candidates],
        "front": [candidate.key for candidate in answer.front],
        "systems": [_system_as_json(choice) for choice in answer.votes],
        "measurements": [_measurement_as_json(measurement) for measurement in answer.measurements],
        "prices": [price.model_dump(mode="json") for price in answer.offered.prices],
        "preemptions_per_node_hour": {
            name: {"rate": rate, "basis": basis}
            for name, (rate, basis) in answer.offered.preemptions.items()
        },
        "spot_zones": {
            name: [asdict(prices) for prices in zones]
            for name, zones in answer.offered.zones.items()
        },
        "cautions": list(evidence.evidence_lines(answer.answer)),
        "out_of_memory": [_crowded_as_json(forecast) for forecast in answer.out_of_memory],
        "left_out": dict(answer.left_out or {}),
        "refused": [refusal_as_json(refusal) for refusal in answer.answer.refused],
        "backend": place.backend,
        "host_id": place.host_id,
        "this_host": place.is_here,
        "recommendation_id": answer.recommendation_id,
    }
    typer.echo(json.dumps(fields, ensure_ascii=False))


def candidate_as_json(answer: DecisionAnswer, candidate: Candidate) -> Json:
    """Return a way to run a job, with what it takes and costs, as JSON has it."""
    limits, at = answer.objective.limits, answer.level
    return {
        "key": candidate.key,
        "scenario_id": candidate.scenario_id,
        "nodes": candidate.label,
        "node_type": " + ".join(candidate.node_types),
        "workers": candidate.workers,
        "step_samples": candidate.step_samples,
        "market": candidate.market,
        "system": candidate.system,
        "training": candidate.training,
        "train_s": candidate.train_s,
        "time_s": candidate.span("time_s", at).model_dump(mode="json"),
        "cost_usd": candidate.span("cost_usd", at).model_dump(mode="json"),
        "usd_per_hour": candidate.usd_per_hour,
        "late_at_most": _chance(limits, candidate, "deadline_s"),
        "over_budget_at_most": _chance(limits, candidate, "budget_usd"),
        "keeps_limits": answer.objective.admits(candidate),
        "checkpoint_every_s": candidate.expected.checkpoint_every_s,
        "past_errors": candidate.ratios.basis if candidate.ratios else None,
    }


def _crowded_as_json(forecast: ScenarioForecast) -> Json:
    """Return nodes that lack memory for a step."""
    detail = forecast.detail or {}
    names = ("device", "needed_bytes", "memory_bytes", "largest_batch_size")
    return {
        "scenario_id": forecast.scenario.scenario_id,
        "node_type": " + ".join(group.node_type for group in forecast.scenario.worker_groups),
        "workers": forecast.scenario.strategy.workers,
        "system": forecast.system.name,
        **{name: detail.get(name) for name in names},
    }


def _chance(limits: Limits, candidate: Candidate, limit: Limit) -> float | None:
    """Return the probability of exceeding a limit, 0 to 1; None: nothing says."""
    return candidate.chance_of_exceeding(limits, limit) if candidate.has_evidence else None


def _system_as_json(vote: SystemChoice) -> Json:
    return {
        "system": vote.system,
        "is_judged": vote.is_judged,
        "candidates": vote.candidates,
        "choice": vote.choice.key if vote.choice else None,
        "train_s_of_choice": vote.of_choice,
    }


def _measurement_as_json(measurement: Measurement) -> Json:
    return {
        "key": measurement.candidate.key,
        "nodes": measurement.candidate.label,
        "probe": measurement.probe,
        "minutes": measurement.minutes,
        "usd": measurement.usd,
        "changes_the_choice": measurement.worth.chance,
        "saving": measurement.worth.saving,
    }
