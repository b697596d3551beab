"""A recommendation as a picture: nothing hides behind anything, and all of it is named."""

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.text import Annotation

from models.choice.limits import Limits
from models.choice.offers import Span
from reports import plots, recommendation_plot
from reports.recommendation_plot import _Point


def point(label: str, hours: float, usd: float) -> _Point:
    """Return nodes with intervals of a tenth below and a fifth above."""
    spans = (Span(value=value, low=0.9 * value, high=1.2 * value) for value in (hours, usd))
    return _Point(label, next(spans), next(spans))


FAST, SLOW, OTHER = point("8 fast", 1.0, 4.0), point("1 slow", 8.0, 3.0), point("2 slow", 7.0, 5.0)


def drawn() -> str:
    figure = recommendation_plot._time_against_cost(  # noqa: SLF001
        "a job",
        Limits(deadline_s=36_000, budget_usd=4.5),
        others=[OTHER, FAST, SLOW],
        front=[FAST, SLOW],
        rules={"cheapest": SLOW, "most powerful": FAST, "linear scaling": SLOW},
        choice=SLOW,
        chooser="choice",
    )
    legend = "; ".join(text.get_text() for text in figure.legends[0].get_texts())
    bars = len(figure.axes[0].containers)
    widths = sorted(
        container.lines[0].get_markersize()
        for container in figure.axes[0].containers
        if isinstance(container, ErrorbarContainer)
        and container.lines[0].get_markerfacecolor() == "none"
    )
    assert len(set(widths)) == len(widths), "rings of one size hide each other"
    assert plots.to_png(figure).startswith(b"\x89PNG")
    return f"{legend}; {bars} with bars"


def test_all_that_is_drawn_is_named_and_has_its_interval() -> None:
    """Rules that take the same are one mark; the budget was a line without a name."""
    names = drawn().split("; ")
    assert sorted(names) == sorted(
        [
            "other ways to run it",
            "Pareto front",
            "choice: 1 slow",
            "cheapest, linear scaling: 1 slow",
            "most powerful: 8 fast",
            "deadline: 10 h",
            "budget: $4.5",
            "5 with bars",
        ]
    )


def test_names_of_a_catalogues_front_cover_neither_each_other_nor_a_mark() -> None:
    """Sixteen points as near to each other as those of real clusters are: some stay unnamed."""
    front = [point(f"{64 >> n} p4de.24xlarge@8", 0.3 * 1.3**n, 900 / 1.12**n) for n in range(16)]
    figure = recommendation_plot._time_against_cost(  # noqa: SLF001
        "a job",
        Limits(deadline_s=86_400),
        others=[point("1 dear", 5.0, 9000.0)],
        front=front,
        rules={"cheapest": front[-1]},
        choice=front[-1],
        chooser="choice",
        is_of_catalogue=True,
    )
    figure.draw_without_rendering()
    axes, renderer = figure.axes[0], FigureCanvasAgg(figure).get_renderer()
    names = [text for text in axes.texts if isinstance(text, Annotation)]
    assert 4 <= len(names) < len(front)
    assert all("@" not in name.get_text() for name in names)
    boxes = [name.get_window_extent(renderer) for name in names]
    assert not any(box.overlaps(other) for box, other in combinations(boxes, 2))
    marks = axes.transData.transform([(mark.hours.value, mark.usd.value) for mark in front])
    assert not any(box.contains(x, y) for box in boxes for x, y in marks)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
