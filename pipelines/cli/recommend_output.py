"""What `stepcast recommend` prints for people: one answer of all systems."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import exp

from forecasting.decisions.answer import DecisionAnswer, count_refusals
from forecasting.forecast import ScenarioForecast
from models.choice.candidates import Candidate
from models.choice.limits import LIMITS, Limit
from models.choice.offers import Span
from pipelines.cli import evidence
from pipelines.cli.own_workload import profile_command
from pipelines.cli.tables import duration, print_rows, print_text, significant
from studies.messages import count, name_some
from warehouse.records import on_images

_BROKEN: Mapping[Limit, str] = {
    "deadline_s": "late",
    "budget_usd": "over budget",
    "usd_per_hour": "too dear an hour",
}
_GIB = 2**30
_FAR_BATCH = 10
"""Times the batch that was asked for: how many samples training needs is another question there."""
_MOST_REASONS = 3
"""How many reasons of refusals are told; JSON has all."""
_MOST_OF_FRONT = 6


def print_decision(answer: DecisionAnswer, target: str | None = None) -> None:
    """Print choice and alternatives, then how surely, and what would change it.

    Args:
        answer: of all systems.
        target: what builds the user's own model; None: it is a network of ours.
    """
    print_text(*_question(answer))
    rows = list(_rows(answer))
    _print_candidates(answer, rows)
    if len(front := answer.front) > 1:
        step = -(-len(front) // _MOST_OF_FRONT)
        print_text(
            f"What more money buys: {len(front)} ways to run it are faster than all that cost no "
            "more"
        )
        _print_candidates(answer, [("", candidate) for candidate in front[::step]])
    for lines in (
        _rooms(answer),
        _cautions(answer),
        _measurements(answer, target),
        _overheads(answer, rows),
        answer.answer.chosen_host.in_words(),
        _prices(answer, rows),
        _refusals(answer),
    ):
        print_text(*lines)


def _question(answer: DecisionAnswer) -> Iterator[str]:
    question, choice = answer.question, answer.decision.choice
    job = f"{question.samples:,} samples of {on_images(question.dnn, answer.known.image_size)}"
    yield f"{job}{''.join(_limits(answer))}: least {question.minimize}"
    yield _coverage(answer)
    if choice is None:
        relaxed = " or ".join(answer.decision.relaxations) or "no single limit mends it"
        if not any(candidate.has_evidence for candidate in answer.candidates):
            relaxed = "no past errors say how surely any does"
        yield f"No way to run it keeps the limits; {relaxed}"
    else:
        hours, cost_usd = duration(choice.outcome.time_s), choice.outcome.cost_usd
        yield f"Rent {choice.label}: {hours}, ${significant(cost_usd, 4)}"


def _coverage(answer: DecisionAnswer) -> str:
    """Return of how many ways to run the job something is known, and whether that was judged."""
    known, on = answer.coverage, f"on backend {answer.answer.chosen_host.backend}"
    text = f"{known.counted} of {count(known.asked, 'way')} to run it"
    text += " has a forecast" if known.counted == 1 else " have forecasts"
    if known.is_judged:
        return f"{text} of systems that have been judged {on}."
    if known.is_of_fits:
        return (
            f"{text}; none or too few have been judged {on}: intervals and probabilities are as "
            "wide as errors on public measurements that fits had not seen, after the fact."
        )
    guessed = "intervals and probabilities are guesses"
    if not known.has_evidence:
        guessed = "nothing says how far off they are"
    return f"{text}; none or too few of their systems' forecasts have been judged {on}: {guessed}."


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


Rows = Sequence[tuple[str, Candidate]]


def _rows(answer: DecisionAnswer) -> Iterator[tuple[str, Candidate]]:
    if answer.decision.choice is not None:
        yield "choice", answer.decision.choice
    for alternative in answer.decision.alternatives:
        is_admitted = answer.question.objective.admits(alternative)
        yield "next best" if is_admitted else "nearest", alternative


def _print_candidates(answer: DecisionAnswer, rows: Rows) -> None:
    """Print candidates, and under each whose forecast it is and how wrong such ones have been."""
    shown, under = list[dict[str, str]](), list[list[str]]()
    for name, candidate in rows:
        time_s, cost_usd = candidate.spans(answer.level)
        hours, cost = time_s.times(1 / 3600), _in_words(cost_usd, "$")
        risks = ", ".join(_risks(answer, candidate)) or "limits are kept"
        row = {"by": name, "nodes": candidate.label, "hours": _in_words(hours, ""), "cost": cost}
        shown.append(row)
        basis = f", {candidate.ratios.basis}" if candidate.ratios else ""
        under.append([f"{risks}; by {candidate.system}{basis}", *_larger_step(answer, candidate)])
    print_rows(shown, ("hours", "cost"), under=under)


def _in_words(span: Span, unit: str) -> str:
    """Return a value with its interval behind it, of two digits if these are around the value."""
    value = f"{unit}{significant(span.value, 3)}"
    if span.low is None or span.high is None:
        return value
    holds = float(f"{span.low:.2g}") <= span.value <= float(f"{span.high:.2g}")
    ends = (significant(end, 2 if holds else 3) for end in (span.low, span.high))
    return f"{value} ({'–'.join(ends)})"


def _risks(answer: DecisionAnswer, candidate: Candidate) -> Iterator[str]:
    """Yield the probability of exceeding each limit that is asked for, where it is known."""
    for limit in LIMITS:
        if answer.question.objective.limits.of(limit) is None:
            continue
        chance = candidate.chance_of_exceeding(answer.question.objective.limits, limit)
        event = _BROKEN[limit]
        if limit == "usd_per_hour":
            if chance:
                yield event
        elif not candidate.has_evidence:
            yield f"{event}: not known"
        elif chance == 1:
            yield f"{event} by all that is known"
        else:
            yield f"P({event}) < 1 %" if chance < 0.01 else f"P({event}) ≤ {100 * chance:.0f} %"


def _larger_step(answer: DecisionAnswer, candidate: Candidate) -> Iterator[str]:
    """Yield how many samples a step has, where that is far from the batch that was asked about."""
    question, samples = answer.question, candidate.step_samples
    asked = (question.batch_size or 0) * question.accumulate
    if asked and samples and samples > _FAR_BATCH * asked:
        yield f"a step has {samples:,} samples, {samples / asked:.0f} times the batch asked for"


def _cautions(answer: DecisionAnswer) -> Iterator[str]:
    """Yield what is to be known of forecasts that count."""
    if blind := dict.fromkeys(each.system for each in answer.candidates if not each.has_evidence):
        yield (
            f"{', '.join(blind)}: no evidence of how wrong forecasts of a host with few steps or "
            "none are, so no interval and no probability."
        )
    yield from evidence.cautions(answer.answer)


def _rooms(answer: DecisionAnswer) -> Iterator[str]:
    """Yield how much memory is lacking, one line for each batch and GPU."""
    lacking: dict[tuple[int, str], list[ScenarioForecast]] = {}
    for forecast in answer.answer.out_of_memory:
        lacking.setdefault(_batch_and_device(forecast), []).append(forecast)
    sharded = {
        _batch_and_device(forecast)
        for forecast in answer.answer.forecasts
        if forecast.scenario.strategy.kind == "sharded" and forecast.fits_memory
    }
    for (batch_size, device), forecasts in lacking.items():
        details = [forecast.detail or {} for forecast in forecasts]
        needs = sorted({f"{detail['needed_bytes'] / _GIB:.1f}" for detail in details}, key=float)
        roomiest = max(forecasts, key=lambda each: (each.detail or {})["largest_batch_size"])
        mends = roomiest.fitting_batch
        if (batch_size, device) in sharded:
            mends = "it fits where enough GPUs share the parameters"
        types = dict.fromkeys(
            group.node_type for forecast in forecasts for group in forecast.scenario.worker_groups
        )
        yield (
            f"No room for a batch of {batch_size} on {device} ({name_some(list(types))}): needs "
            f"{' to '.join(dict.fromkeys((needs[0], needs[-1])))} of "
            f"{details[0]['memory_bytes'] / _GIB:.1f} GiB; {mends}."
        )


def _batch_and_device(forecast: ScenarioForecast) -> tuple[int, str]:
    return forecast.scenario.workload.batch_size, (forecast.detail or {}).get("device", "")


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
        candidate, worth = measurement.candidate, measurement.worth
        saved = f"${significant(worth.saving, 2)}" if by_cost else duration(worth.saving)
        yield (
            f"  measure {candidate.label} ({measurement.probe}, about {measurement.minutes:.0f} "
            f"min, ${significant(measurement.usd, 2)}): another choice with a probability of "
            f"{100 * worth.chance:.0f} %"
            + (f", better by {saved} in the mean" if worth.saving > 0 else "")
        )
        scenario = scenarios[candidate.scenario_id]
        if target is not None and scenario.strategy.kind == "single":
            (name,), batch_size = candidate.node_types, scenario.workload.batch_size
            command = profile_command(target, name, batch_size, answer.question.recipe)
            yield f"    on one of them: `{command}`"


def _overheads(answer: DecisionAnswer, rows: Rows) -> Iterator[str]:
    """Yield what comes to training, and how often spot nodes that are shown are lost."""
    overheads, choice = answer.question.overheads, answer.decision.choice
    yield (
        f"Beside training: launch {overheads.launch_s / 60:g} min (half to twice that in nine of "
        f"ten), loading {overheads.load_s / 60:g} min, a checkpoint {overheads.checkpoint_s:g} s."
    )
    if any(candidate.market == "spot" for _, candidate in rows):
        yield f"A spot node is lost {answer.offered.preemptions_per_node_hour:.2g} times an hour."
    if choice is not None and choice.market == "spot":
        scenario = next(
            forecast.scenario
            for forecast in answer.answer.forecasts
            if forecast.scenario.scenario_id == choice.scenario_id
        )
        hourly = answer.offered.preemptions_per_hour(scenario, "spot")
        lost = 1 - exp(-hourly * choice.expected.time_s(choice.train_s) / 3600)
        yield f"The choice loses a node with a probability of {100 * lost:.2g} %."


def _prices(answer: DecisionAnswer, rows: Rows) -> Iterator[str]:
    """Yield the prices of what is shown, and what is not on offer."""
    shown = {name for _, candidate in rows for name in candidate.node_types}
    priced = [price for price in answer.offered.prices if price.node_type in shown]
    more = len({price.node_type for price in answer.offered.prices} - shown)
    yield f"Prices: {evidence.prices_in_words(priced)}{f'; {more} more in --json' if more else ''}."
    if answer.is_of_catalogue and "spot" not in answer.offered.markets:
        yield "Spot prices of these: none was observed; `stepcast prices collect` asks AWS."
    reasons: dict[str, list[str]] = {}
    for name, reason in (answer.left_out or {}).items():
        reasons.setdefault(reason, []).append(name)
    if reasons:
        left_out = (f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
        yield f"Not on offer: {'; '.join(left_out)}. Quota and availability are not checked."


def _refusals(answer: DecisionAnswer) -> Iterator[str]:
    """Yield the most common reasons why systems forecast nothing, and how many others there are."""
    training = {candidate.training for candidate in answer.candidates}
    kinds = {"async_parameter_server" in each for each in training}
    if len(kinds) > 1:
        yield "Asynchronous steps use older gradients: a sample there may teach less."
    # Most systems know processors alone; those that forecast some of these nodes say the most.
    able = {forecast.system.name for forecast in answer.answer.forecasts}
    refused = Counter(
        refusal.in_words
        for refusal in answer.answer.refused
        if refusal.system.name in able and not refusal.foreign
    ) or count_refusals(answer.answer)
    for reason, scenarios in refused.most_common(_MOST_REASONS):
        yield f"{reason} ({count(scenarios, 'scenario')})"
    if (more := len(refused) - _MOST_REASONS) > 0:
        yield f"{count(more, 'more reason')} to forecast nothing; --json has all refusals."
    fits = {forecast.fit.fit_id for forecast in answer.answer.forecasts}
    yield f"Recommendation {answer.recommendation_id}, by {count(len(fits), 'fit')}."
