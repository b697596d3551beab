"""Forecasts as the time of an epoch: so many samples, by all workers together."""

from forecasting.asked.answer import Forecast
from forecasting.speeds import samples_per_s
from warehouse.records import BadInput

_UNITS = ((3600.0, "h"), (60.0, "min"), (0.0, "s"))


def check_samples(samples: int | None) -> None:
    """Refuse an epoch without samples.

    Raises:
        BadInput: it has none.
    """
    if samples is not None and samples < 1:
        raise BadInput(f"--dataset-samples: expected a number above 0, found {samples}")


def epoch_s(one: Forecast, samples: int) -> tuple[float, float | None, float | None] | None:
    """Return the seconds of an epoch as forecast, at least and at most; None if none is forecast.

    Args:
        one: of the time of a step, or of steps a second.
        samples: of the epoch.
    """
    value, low, high = (_seconds(one, some, samples) for some in (one.value, one.low, one.high))
    if value is None:
        return None
    if low is None or high is None:
        return value, None, None
    return value, min(low, high), max(low, high)


def in_words(one: Forecast, samples: int) -> str:
    """Return the time of an epoch and its interval, in one unit."""
    found = epoch_s(one, samples)
    if found is None:
        return "-"
    value, low, high = found
    least_s, unit = next(each for each in _UNITS if value >= each[0])
    said = [f"{some / (least_s or 1):.3g}" for some in (value, low, high) if some is not None]
    interval = f" ({said[1]} to {said[2]})" if len(said) > 1 else ""
    return f"{said[0]} {unit}{interval}"


def _seconds(one: Forecast, value: float | None, samples: int) -> float | None:
    if value is None or not value > 0:
        return None
    speed = samples_per_s(one.scenario, one.metric.name, value)
    return None if speed is None else samples / speed
