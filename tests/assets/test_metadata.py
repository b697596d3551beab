"""What lineage keeps of an asset: of many plots only the first."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from assets.metadata import PLOTS, of_figures


def test_of_many_plots_the_first_are_drawn() -> None:
    """A study of many curves would fill the log of events with pictures."""

    def figures(count: int) -> Iterator[Figure]:
        for place in range(count):
            made.append(place)
            yield Figure()

    made = list[int]()
    many = of_figures(figures(64))
    assert str(many["plot"].value).count("data:image/png;base64,") == PLOTS
    assert made == list(range(PLOTS))
    assert of_figures(figures(0)) == {}
