"""Several servers, from the profile of one: two tensors that are sent in turn, or at once."""

from dataclasses import replace

import polars as pl
import pytest

from models.async_sgd.predictor import fit
from models.async_sgd.systems import OneServer
from tests.models.async_sgd.frames import Tables, tables
from tests.models.runs import links, run_tables, samples, scenario
from warehouse.records import BadInput

SPEED_BPS = 100e3


def two_variables() -> Tables:
    """Return steps of 20 kB and 20 kB received, 0.1 s computed: 0.5 s with one server."""
    made = tables(
        [*[("ps", None)] * 4, ("downlink", 20_000), ("downlink", 20_000), ("worker", None)],
        [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 6)],
        [
            {
                **dict.fromkeys(range(4), (0, 1)),
                4: (0, 200_000),
                5: (0, 400_000),
                6: (400_000, 100_000),
            }
        ]
        * 4,
    )
    kinds = pl.when(pl.col("operation") < 2).then(pl.lit("VariableV2")).otherwise(pl.lit("_"))
    return replace(made, operations=made.operations.with_columns(type=kinds))


def model() -> OneServer:
    made = two_variables()
    runs, scenarios = run_tables()
    fitted = fit(
        runs=runs,
        scenarios=scenarios,
        operations=made.operations,
        edges=made.edges,
        timings=made.timings,
        steps=made.steps,
        samples=samples({"client_gap_s": [0.0]}),
        links=links([SPEED_BPS], [SPEED_BPS]),
    )
    return OneServer(fitted, made.operations)


def test_each_of_two_servers_sends_half_to_many_workers() -> None:
    predicted = model().predict(
        [scenario(8, servers=2), scenario(8, servers=2, placement="greedy")]
    )
    assert predicted["value"].to_list() == pytest.approx([8 / (8 * 0.2)] * 2, rel=0.1)


def test_another_batch_size_is_refused() -> None:
    with pytest.raises(BadInput, match="small_cnn"):
        model().predict([scenario(8, servers=2, batch_size=9)])
