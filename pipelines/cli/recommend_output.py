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
from forecasting.question import ScenarioForecast
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
_MOST_REASONS = 3
"""How many reasons of refusals are told; JSON has all."""


def print_decision(found: DecisionAnswer, *, with_front: bool, target: str | None = None) -> None:
    """Print choice, alternatives and rules of thumb, then how surely, and what would change it.

    Args:
        found: the answer.
        with_front: whether the Pareto front is listed.
        target: what builds the user's own model; None: it is a network of ours.
    """
    for line in _question(found):
        print_text(line)
    _print_candidates(found, list(_rows(found)))
    if with_front and found.front:
        print_text("What more money buys: nothing else within the limits is faster and cheaper")
        _print_candidates(found, [("", one) for one in found.front])
    for lines in (
        _rooms(found),
        _agreement(found),
        _measurements(found, target),
        _overheads(found),
        _origin(found),
        _refusals(found),
    ):
        for line in lines:
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
    crowded = {one.scenario.scenario_id for one in found.without_room}
    if crowded := crowded - {candidate.scenario_id for candidate in found.candidates}:
        told += f"; {len(crowded)} more lack memory"
    if known.is_judged:
        told += f" of systems that have been judged {on}"
        if (more := known.forecast - known.counted) > 0:
            told += f"; {more} more only of systems that nobody judged there, so not counted"
    elif known.is_of_fits:
        told += f"; none or too few have been judged {on}: intervals and probabilities are as wide "
        told += "as errors on public measurements that fits had not seen, after the fact"
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
        plain = "next best" if found.aim.admits(alternative) else "nearest"
        yield found.decision.roles.get(alternative.key, plain), alternative
    for rule, taken in found.rules.items():
        yield ("cheapest an hour" if rule == "cheapest" else rule), taken


def _print_candidates(found: DecisionAnswer, rows: Sequence[tuple[str, Candidate | None]]) -> None:
    cells = _cells(found, rows)
    if not found.is_of_catalogue:
        print_rows(_COLUMNS, cells)
        return
    at = found.level
    for row, (_, one) in zip(cells, rows, strict=True):
        if one is not None:
            row[2] = _short(one.span("time_s", at).times(1 / 3600), "")
            row[3] = _short(one.span("cost_usd", at), "$")
            row[6] = f"{one.system}, {row[6]}"
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


def _digits(value: float, digits: int) -> str:
    """Return a number of so many digits, and of all that stand before its point."""
    shown = float(f"{value:.{digits}g}")
    return f"{shown:,.0f}" if shown >= 100 else f"{shown:g}"


def _cells(found: DecisionAnswer, rows: Sequence[tuple[str, Candidate | None]]) -> list[list[str]]:
    at = found.level
    is_one_known = any(candidate.workers == 1 for candidate in found.candidates)
    nothing = "none keeps the limits" if is_one_known else "no forecast of one node"
    return [
        [name, nothing, "", "", "", "", ""]
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


def _rooms(found: DecisionAnswer) -> Iterator[str]:
    """Yield how much memory is lacking, one line for each batch and GPU."""
    lacking: dict[tuple[int, str], list[ScenarioForecast]] = {}
    for forecast in found.without_room:
        key = forecast.scenario.workload.batch_size, (forecast.detail or {})["device"]
        lacking.setdefault(key, []).append(forecast)
    sharded = {
        (forecast.scenario.workload.batch_size, (forecast.detail or {})["device"])
        for forecast in found.answer.forecasts
        if forecast.scenario.strategy.kind == "sharded" and forecast.has_room
    }
    for (batch_size, device), forecasts in lacking.items():
        told = [forecast.detail or {} for forecast in forecasts]
        needs = sorted({f"{each['needed_bytes'] / _GIB:.1f}" for each in told}, key=float)
        there = told[0]["memory_bytes"] / _GIB
        does = max(
            forecasts, key=lambda one: (one.detail or {})["largest_batch_size"]
        ).fitting_batch
        if (batch_size, device) in sharded:
            does = "it fits where enough GPUs share the parameters"
        types = dict.fromkeys(
            group.node_type for forecast in forecasts for group in forecast.scenario.worker_groups
        )
        yield (
            f"No room for a batch of {batch_size} on {device} ({name_some(list(types))}): needs "
            f"{' to '.join(dict.fromkeys((needs[0], needs[-1])))} of {there:.1f} GiB; {does}."
        )


def _measurements(found: DecisionAnswer, target: str | None) -> Iterator[str]:
    """Yield which measurement might change the choice, and what it is worth."""
    if not found.measurements:
        if all(candidate.has_evidence for candidate in found.candidates):
            yield "No measurement of a single one of these would change the choice."
        return
    scenarios = {one.scenario.scenario_id: one.scenario for one in found.answer.forecasts}
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
        if target is not None and measurement.candidate.gpu_announced is not None:
            scenario = scenarios[measurement.candidate.scenario_id]
            if scenario.strategy.kind == "single":
                (name,), batch_size = measurement.candidate.node_types, scenario.workload.batch_size
                command = profile_command(target, name, batch_size, found.question.recipe)
                yield f"    on one of them: `{command}`"


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
    yield from _spot(found)


def _spot(found: DecisionAnswer) -> Iterator[str]:
    """Yield how often spot nodes are lost, and what zones ask: of a catalogue, those shown."""
    shown = {name for _, one in _rows(found) if one is not None for name in one.node_types}
    for node_type, (rate, basis) in found.offered.preemptions.items():
        if found.is_of_catalogue and node_type not in shown:
            continue
        yield f"A spot node of {node_type} is lost {rate:.2g} times an hour ({basis})."
        zones = found.offered.zones.get(node_type, ())
        if len(zones) > 1 or any(prices.lowest < prices.highest for prices in zones):
            yield f"  {'; '.join(map(_zone_in_words, zones))}"
    choice = found.decision.choice
    if choice is not None and choice.market == "spot":
        scenario = next(
            forecast.scenario
            for forecast in found.answer.forecasts
            if forecast.scenario.scenario_id == choice.scenario_id
        )
        hourly = found.offered.preemptions_per_hour(scenario, "spot")
        lost = 1 - exp(-hourly * choice.expected.time_s(choice.train_s) / 3600)
        yield f"The choice loses a node with a probability of {100 * lost:.2g} %."


def _zone_in_words(prices: ZonePrices) -> str:
    varied = ""
    if prices.lowest < prices.highest:
        varied = f" ({prices.lowest:.3g} to {prices.highest:.3g} in {prices.hours:.0f} h)"
    return f"{prices.zone or 'any zone'} ${prices.usd_per_hour:g}/h{varied}"


def _origin(found: DecisionAnswer) -> Iterator[str]:
    yield from found.answer.place.in_words()
    yield from _prices(found)
    scenarios = {forecast.scenario for forecast in found.answer.forecasts}
    unsaid = found.coverage.asked - len(scenarios)
    lacking = f"; no system forecasts {unsaid} more" if unsaid else ""
    if unsaid and found.question.all_gpus and unsaid == _several_gpus(found):
        lacking += ", all of several GPUs"
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


def _prices(found: DecisionAnswer) -> Iterator[str]:
    """Yield the prices; of a whole catalogue only those of what is shown, and what has none."""
    offered = found.offered
    prices = offered.prices
    if not found.is_of_catalogue:
        yield f"Prices: {prices_in_words(prices)}."
        return
    shown = {name for _, one in _rows(found) if one is not None for name in one.node_types}
    prices = [price for price in prices if price.node_type in shown]
    more = len({price.node_type for price in offered.prices} - shown)
    yield f"Prices: {prices_in_words(prices)}{f'; {more} more in --json' if more else ''}."
    if "spot" not in offered.markets:
        yield "Spot prices of these: none was observed; `stepcast prices collect` asks AWS."
    reasons: dict[str, list[str]] = {}
    for name, reason in (found.left_out or {}).items():
        reasons.setdefault(reason, []).append(name)
    if reasons:
        told = (f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
        yield f"Not on offer: {'; '.join(told)}. Quota and availability are not checked."


def _several_gpus(found: DecisionAnswer) -> int:
    """Return how many scenarios of several GPUs have no forecast."""
    known = {one.scenario.scenario_id for one in found.answer.forecasts}
    return len(
        {
            one.scenario.scenario_id
            for one in found.answer.refused
            if not one.foreign and one.scenario.strategy.kind != "single"
        }
        - known
    )


def _refusals(found: DecisionAnswer) -> Iterator[str]:
    """Yield the most common reasons why systems forecast nothing, and how many others there are."""
    refused = count_refusals(found.answer)
    if found.is_of_catalogue:
        # Most systems know processors alone; those that know some of these GPUs say the most.
        able = {one.system.name for one in found.answer.forecasts}
        refused = (
            Counter(one.in_words for one in found.answer.refused if one.system.name in able)
            or refused
        )
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
        "spot_zones": {
            name: [asdict(prices) for prices in zones]
            for name, zones in found.offered.zones.items()
        },
        "cautions": list(evidence.evidence_lines(found.answer)),
        "without_room": [_crowded_as_json(one) for one in found.without_room],
        "left_out": dict(found.left_out or {}),
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


def _crowded_as_json(one: ScenarioForecast) -> Json:
    """Return nodes that lack memory for a step."""
    told = one.detail or {}
    names = ("device", "needed_bytes", "memory_bytes", "largest_batch_size")
    return {
        "scenario_id": one.scenario.scenario_id,
        "node_type": " + ".join(group.node_type for group in one.scenario.worker_groups),
        "workers": one.scenario.strategy.workers,
        "system": one.system.name,
        **{name: told.get(name) for name in names},
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
