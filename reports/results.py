"""The names of `forecasting.results`, where assets still look for them."""

from forecasting.results import (
    JUDGED,
    Summary,
    apart,
    by_system,
    curves,
    forecasts,
    outcome,
    summary,
    titles,
    unjudged,
)

__all__ = [
    "JUDGED",
    "Summary",
    "apart",
    "by_system",
    "curves",
    "forecasts",
    "outcome",
    "summary",
    "titles",
    "unjudged",
]
