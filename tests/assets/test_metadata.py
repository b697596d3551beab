"""What lineage keeps of an asset: of many plots only the first."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from assets.metadata import PLOTS, of_frame
from studies.study import read_study
from tests.synthetic import opened, write_study


def test_of_many_plots_the_first_are_drawn(tmp_path: Path) -> None:
    """A study of many curves would fill the log of events with pictures."""

    def figures(count: int) -> Iterator[Figure]:
        for place in range(count):
            made.append(place)
            yield Figure()

    made = list[int]()
    round_, frame = opened(read_study(write_study(tmp_path))), pl.DataFrame({"measured": [1.0]})
    many = of_frame(frame, round_, figures(64))
    assert str(many["plot"].value).count("data:image/png;base64,") == PLOTS
    assert made == list(range(PLOTS))
    assert "plot" not in of_frame(frame, round_, figures(0))
