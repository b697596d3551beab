"""When members of the fleet are due by the calendar: hours, nights, weeks and months, UTC."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from fleet.members import Every

_DAYS = 365.2425
VISITS_A_MONTH: Mapping[Every, float] = MappingProxyType(
    {"hour": 2 * _DAYS, "night": _DAYS / 12, "week": _DAYS / 7 / 12, "month": 1.0}
)
"""How many visits a mean month has."""
_SUNDAY = 6


def beginning(every: Every, at: str, now: datetime) -> datetime:
    """Return when the present hour, night, week or month began: what was done since is done.

    Args:
        every: how often something is done.
        at: the time of day of nights, weeks and months, HH:MM.
        now: UTC.
    """
    if every == "hour":
        return now.replace(minute=0, second=0, microsecond=0)
    hour, minute = map(int, at.split(":"))
    then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if every == "month":
        first = then.replace(day=1)
        return first if first <= now else (first - timedelta(days=1)).replace(day=1)
    if every == "week":
        then -= timedelta(days=(then.weekday() - _SUNDAY) % 7)
        return then if then <= now else then - timedelta(days=7)
    return then if then <= now else then - timedelta(days=1)


def following(every: Every, at: str, now: datetime) -> datetime:
    """Return when the next one begins."""
    began = beginning(every, at, now)
    match every:
        case "hour":
            return began + timedelta(hours=1)
        case "night":
            return began + timedelta(days=1)
        case "week":
            return began + timedelta(days=7)
        case "month":
            return (began + timedelta(days=31)).replace(day=1)


def month_of(now: datetime) -> datetime:
    """Return when the present month began."""
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
