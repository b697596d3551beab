"""A recommendation as a picture: all of it is named, and has its interval."""

from types import SimpleNamespace
from typing import Any

from models.choice.limits import Limits
from models.choice.offers import Span
from reports import plots
from reports.recommendation_plot import of_all_systems


def candidate(label: str, hours: float, usd: float) -> Any:
    """Return nodes with intervals of a tenth below and a fifth above."""
    spans = [Span(value=each, low=0.9 * each, high=1.2 * each) for each in (3600 * hours, usd)]
    return SimpleNamespace(label=label, spans=lambda _: spans)


def test_all_that_is_drawn_is_named_and_has_its_interval() -> None:
    fast, slow = candidate("8 fast", 1.0, 4.0), candidate("1 slow", 8.0, 3.0)
    answer: Any = SimpleNamespace(
        question=SimpleNamespace(samples=1000, dnn="vgg11", minimize="cost"),
        candidates=[candidate("2 slow", 7.0, 5.0), fast, slow],
        front=[fast, slow],
        decision=SimpleNamespace(choice=slow),
        objective=SimpleNamespace(limits=Limits(deadline_s=36_000, budget_usd=4.5)),
        level=0.9,
        is_of_catalogue=False,
    )
    figure = of_all_systems(answer)
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "other ways to run it",
        "Pareto front",
        "choice: 1 slow",
        "deadline: 10 h",
        "budget: $4.5",
    }
    (bars, *_) = figure.axes[0].containers
    ends = [line.get_segments() for line in bars[2]]
    assert [end.round(2).tolist() for of in ends for end in of] == [
        [[6.3, 5.0], [8.4, 5.0]],
        [[7.0, 4.5], [7.0, 6.0]],
    ]
    assert len(figure.axes[0].containers) == 3
    assert plots.to_png(figure).startswith(b"\x89PNG")
