"""What is forecast without having been seen: passes of batch sizes that were timed apart."""

import polars as pl
import pytest

from models.srift.validation import held_out_errors


def compute(times: dict[int, tuple[float, float]]) -> pl.DataFrame:
    """Return two trials at each batch size, a tenth around its forward and backward seconds."""
    rows = [
        (batch_size, factor * forward_s, factor * backward_s, 0.0)
        for batch_size, (forward_s, backward_s) in times.items()
        for factor in (0.9, 1.1)
    ]
    return pl.DataFrame(
        rows, schema=["batch_size", "forward_s", "backward_s", "update_s"], orient="row"
    )


def test_held_out_batch_sizes_are_forecast_from_the_profile() -> None:
    """Lines between 2 and 6 say 3 s forward and 4 s backward; measured were 4 and 6."""
    profiled = compute({2: (2.0, 2.0), 6: (4.0, 6.0), 8: (5.0, 8.0)})
    errors = held_out_errors(profiled, compute({4: (4.0, 6.0), 7: (4.5, 7.0)}))
    assert errors["batch_size"].to_list() == [4, 7]
    assert errors["forward_percent"].to_list() == pytest.approx([-25, 0])
    assert errors["both_percent"].to_list() == pytest.approx([-30, 0])
    assert errors["floor_percent"][0] == pytest.approx(10)
