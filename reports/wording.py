"""How figures read in tables: a missing one is a dash, never 0."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forecasting.results import Summary

DASH = "—"


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


def spaced(name: str | None) -> str:
    """Return a name whose words are apart."""
    return DASH if name is None else name.replace("_", " ")


def floor(result: "Summary") -> str:
    """Return the noise floor, and over how many scenarios, or why there is none."""
    if result.noise_floor is None:
        return f"{DASH} (known from the second round on)"
    return f"{percent(result.noise_floor)} (n = {result.noise_n})"


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
