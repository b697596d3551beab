"""How figures read in tables: a missing one is a dash, never 0."""

from collections.abc import Callable, Iterable
from math import exp, lgamma, log, log1p
from typing import TYPE_CHECKING

from studies.messages import count

if TYPE_CHECKING:
    from forecasting.results import Summary

DASH = "—"
_MOST_BY_CHANCE = 0.2


def number(value: float | None) -> str:
    """Return a throughput or a time with three significant digits, or two behind the point."""
    if value is None:
        return DASH
    return f"{value:.3g}" if 0 < value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def interval(low: float | None, high: float | None) -> str:
    """Return an interval in brackets, nothing if there is none."""
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def percent(value: float | None, *, signed: bool = False) -> str:
    """Return a percentage with one digit after the point."""
    if value is None:
        return DASH
    return f"{value:{'+' if signed else ''}.1f} %".replace("-", "−")


def signed(value: float | None) -> str:
    """Return a percentage with its sign."""
    return percent(value, signed=True)


def known(value: object) -> str:
    """Return a value as it is, and a dash where it is not known."""
    return DASH if value is None else str(value)


def formatted(form: str) -> Callable[[object], str]:
    """Return what writes values in a form of `str.format`, and a dash where none is known."""
    return lambda value: DASH if value is None else form.format(value)


def spaced(name: str | None) -> str:
    """Return a name whose words are apart."""
    return DASH if name is None else name.replace("_", " ")


def held_intervals(inside: int, n: int) -> tuple[str, str]:
    """Return how many of n intervals of 90 % had what was measured, and what to make of it.

    A share is no headline where n is too few to judge intervals by; that far too few held can show
    of a few, too.
    """
    low, high = by_chance(n)
    expected = f"if nine of ten intervals hold, {low} to {high} of {n} are expected (95 %)"
    if are_few(n) and inside < low:
        return f"{inside} of {n}", f"fewer than chance allows: {expected}"
    if are_few(n):
        return f"{inside} of {n}", f"{n} are too few to judge intervals: {expected}"
    beyond = "" if low <= inside <= high else "; this is beyond chance"
    return percent(100 * inside / n), f"{inside} of {n}; {expected}{beyond}"


def are_few(n: int) -> bool:
    """Tell whether chance alone spans more than `_MOST_BY_CHANCE` of n intervals of 90 %."""
    low, high = by_chance(n)
    return high - low > _MOST_BY_CHANCE * n


def by_chance(n: int, part: float = 0.9, level: float = 0.95) -> tuple[int, int]:
    """Return the least and most of n that hold with a probability of `part` each, at a level.

    Outside on either side is less than half of what the level leaves (binomial).
    """
    tail = (1 - level) / 2
    total, low = 0.0, None
    for k in range(n + 1):
        ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
        total += exp(ways + k * log(part) + (n - k) * log1p(-part))
        if low is None and total > tail:
            low = k
        if total >= 1 - tail:
            return low or 0, k
    return low or 0, n


def share(part: float | None) -> str:
    """Return a part of 1 as a percentage."""
    return percent(None if part is None else 100 * part)


def span(values: Iterable[float | None], form: str) -> str:
    """Return the least and the largest of values, each as `form` has it; missing ones apart."""
    known = [value for value in values if value is not None]
    return f"{form.format(min(known))} to {form.format(max(known))}" if known else DASH


def floor(result: "Summary") -> str:
    """Return the noise floor, and over how many scenarios, or why there is none."""
    if result.noise_floor is None:
        return f"{DASH} (known from the second round on)"
    return f"{percent(result.noise_floor)} (n = {result.noise_n})"


def opening(scenarios: int, result: "Summary", baseline: str) -> str:
    """Return the sentence above the table of a round of so many scenarios."""
    done = f"{count(scenarios, 'scenario')} forecast from profiles, and only then measured"
    if result.error is None:
        return f"{done}."
    several = "with several workers, " if result.several else ""
    beside = baseline_clause(result, f", {baseline} by")
    return f"{done}: {several}forecasts are off by {percent(result.error)} in the mean{beside}."


def baseline_clause(result: "Summary", words: str) -> str:
    """Return the baseline's error after the words; nothing where no baseline was judged."""
    return "" if result.linear_error is None else f"{words} {percent(result.linear_error)}"


def headline(result: "Summary", baseline: str) -> str:
    """Return the one line that says how wrong the predictions were, and the baseline's."""
    busy = f" Not counted, the host being busy: {result.busy_n}." if result.busy_n else ""
    if result.error is None:
        none = "counts" if result.busy_n else "has been judged"
        some = "No scenario with 2 or more workers" if result.several else "No scenario"
        return f"{some} {none}.{busy}"
    over = " over W ≥ 2" if result.several else ""
    beside = baseline_clause(result, f"; {baseline} errs by")
    return (
        f"Mean absolute error{over}: {percent(result.error)} (n = {result.n}); "
        f"noise floor {floor(result)}{beside}.{busy}"
    )
