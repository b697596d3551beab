"""A recommendation as a picture: all of it is named, and has its interval."""

from models.choice.limits import Limits
from models.choice.offers import Span
from reports import plots, recommendation_plot
from reports.recommendation_plot import _Point


def point(label: str, hours: float, usd: float) -> _Point:
    """Return nodes with intervals of a tenth below and a fifth above."""
    spans = (Span(value=value, low=0.9 * value, high=1.2 * value) for value in (hours, usd))
    return _Point(label, next(spans), next(spans))


def test_all_that_is_drawn_is_named_and_has_its_interval() -> None:
    fast, slow = point("8 fast", 1.0, 4.0), point("1 slow", 8.0, 3.0)
    figure = recommendation_plot._time_against_cost(  # noqa: SLF001
        "a job",
        Limits(deadline_s=36_000, budget_usd=4.5),
        others=[point("2 slow", 7.0, 5.0), fast, slow],
        front=[fast, slow],
        choice=slow,
    )
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "other ways to run it",
        "Pareto front",
        "choice: 1 slow",
        "deadline: 10 h",
        "budget: $4.5",
    }
    assert len(figure.axes[0].containers) == 3
    assert plots.to_png(figure).startswith(b"\x89PNG")
