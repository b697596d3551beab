"""What rented nodes cost when they were measured is no part of what was measured."""

from typing import TYPE_CHECKING

import polars as pl
import pytest

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker
    from warehouse.records import Backend


@pytest.mark.parametrize(("backend", "histories"), [("ec2", 1), ("emulated", 2)])
def test_prices_of_rented_nodes_keep_figures_comparable(
    make: "Maker", backend: "Backend", histories: int
) -> None:
    for place, usd_per_hour in enumerate((0.11, 0.12)):
        run = make.run(f"r{place}", make.scenario(2), "measurement", minute=place)
        config = {**run.config, "usd_per_hour": usd_per_hour}
        run = run.model_copy(update={"backend": backend, "config": config})
        sample = {"metric": ["m"], "unit": ["s"], "window": [0], "value": [1.0]}
        make.land(run, make.scenario(2), {"sample": pl.DataFrame(sample)})
    make.warehouse.load()
    rows = make.rows("SELECT DISTINCT comparable_id FROM report.history WHERE metric = 'm'")
    assert rows.height == histories
