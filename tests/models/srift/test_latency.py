"""Compute latency: segments, sample points, and fits to rows of table compute."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from models.srift.latency import (
    Gradients,
    Latency,
    PiecewiseLinear,
    fit,
    fit_gradients,
    held_out_errors,
)
from tests.made_run import raw_table
from warehouse.records import BadInput

CURVE = PiecewiseLinear(batch_sizes=(1, 4, 8, 16), seconds=(1.0, 2.5, 3.5, 7.5))


def test_three_segments_and_their_continuation() -> None:
    """Slopes 0.5, 0.25 and 0.5 s per sample."""
    batch_sizes = [1, 2, 4, 6, 8, 12, 16, 20]
    assert CURVE(batch_sizes).tolist() == [1.0, 1.5, 2.5, 3.0, 3.5, 5.5, 7.5, 9.5]
    assert CURVE(12).shape == ()
    falling = PiecewiseLinear(batch_sizes=(1, 2), seconds=(3.0, 1.0))
    assert falling(4) == 0.0


def compute(rows: Sequence[tuple[int, int, float, float, float | None]]) -> pl.DataFrame:
    return raw_table("compute", "batch_size trial forward_s backward_s update_s", rows)


def test_stragglers_of_each_batch_scatter_as_they_did() -> None:
    """Totals scatter by √0.02 = 0.141 around 2 with one image, by twice that around 4 with 3."""
    ones = [(1, trial, 0.9 + trial * 0.1, 0.9 + trial * 0.1, 0.0) for trial in (0, 1)]
    three = [(3, trial, 1.8 + trial * 0.2, 1.8 + trial * 0.2, 0.0) for trial in (0, 1)]
    latency = fit(compute([*ones, *three]))
    assert latency.deviation is not None
    assert latency.deviation(np.array([1, 2, 3])) == pytest.approx(
        [0.1414, 0.2121, 0.2828], abs=1e-4
    )
    assert latency.scale(2) == pytest.approx(
        0.2121 / (latency.forward(2) + latency.backward(2)), abs=1e-4
    )
    assert fit(compute([*ones, three[0]])).deviation is None
    assert Latency(forward=latency.forward, backward=latency.backward, straggler_scale=0.3).scale(
        np.array([1, 2])
    ).tolist() == [0.3, 0.3]


def test_bad_tables() -> None:
    with pytest.raises(BadInput, match=r"at least two batch sizes \(four as Srift\), found 1;"):
        fit(compute([(1, 1, 1.0, 1.0, None)]))
    with pytest.raises(ValidationError, match="batch sizes must rise"):
        PiecewiseLinear(batch_sizes=(2, 2), seconds=(1.0, 1.0))
    with pytest.raises(ValidationError, match="2 batch sizes have 1 times"):
        PiecewiseLinear(batch_sizes=(1, 2), seconds=(1.0,))


LAYERS = raw_table("layer", "layer gradient_bytes", enumerate((40, 0, 8, 16)))


def layer_times(*trials: tuple[float | None, ...]) -> pl.DataFrame:
    rows = [
        ("r", 4, trial, layer, ready)
        for trial, readies in enumerate(trials)
        for layer, ready in enumerate(readies)
    ]
    return raw_table("layer_time", "run_id batch_size trial layer gradient_ready", rows)


def test_gradients_of_a_network_with_branches() -> None:
    """Layer 2 is executed in one of two trials, layer 3 in none."""
    gradients = fit_gradients(LAYERS, layer_times((0.9, None, 0.5, None), (1.0, None, None, None)))
    assert gradients == Gradients(
        layer_bytes=(40, 0, 8, 16), ready=(0.95, 1.0, 0.5, 1.0), probability=(1.0, 0.0, 0.5, 0.0)
    )


def test_a_fit_to_trials() -> None:
    """Totals 1.8 and 2.2 scatter by √0.08 = 0.2828 around 2, those of batch 4 not at all."""
    latency = fit(compute([(4, 1, 1.0, 3.0, 0.5), (1, 1, 0.4, 0.9, 0.5), (1, 2, 0.6, 1.1, 0.5)]))
    assert latency.forward(np.array([1, 4])).tolist() == pytest.approx([0.5, 1.0])
    assert latency.backward(np.array([1, 4])).tolist() == pytest.approx([1.0, 3.0])
    assert latency.update_s == pytest.approx(0.5)
    assert latency.straggler_scale == pytest.approx(0.08**0.5 / 2)
    assert Latency.model_validate_json(latency.canonical_json()) == latency


def test_held_out_batch_sizes_are_forecast_from_the_profile() -> None:
    """Lines between 2 and 6 say 3 s forward and 4 s backward; measured were 4 and 6."""
    profiled, held_out = (
        compute(
            [
                (size, trial, f * scale, b * scale, 0.0)
                for size, f, b in times
                for trial, scale in enumerate((0.9, 1.1))
            ]
        )
        for times in ([(2, 2.0, 2.0), (6, 4.0, 6.0), (8, 5.0, 8.0)], [(4, 4.0, 6.0), (7, 4.5, 7.0)])
    )
    errors = held_out_errors(profiled, held_out)
    assert errors["batch_size"].to_list() == [4, 7]
    assert errors["forward_percent"].to_list() == pytest.approx([-25, 0])
    assert errors["both_percent"].to_list() == pytest.approx([-30, 0])
    assert errors["floor_percent"][0] == pytest.approx(10)
    alone = held_out_errors(profiled, held_out.filter(batch_size=4).head(1))
    assert alone["floor_percent"].is_nan().all()
