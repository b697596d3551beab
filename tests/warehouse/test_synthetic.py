"""Simulated steps are kept beside the ledger: once per fit and scenario, apart from raw.*."""

from typing import TYPE_CHECKING

import polars as pl
import pytest

from warehouse.records import BadInput

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

ROWS = pl.DataFrame(
    {
        "worker": [0, 0],
        "step": [50, 50],
        "operation": [1, 2],
        "name": ["w/read", "conv"],
        "resource": ["downlink", "worker"],
        "server": [0, None],
        "start_us": [0, 9],
        "end_us": [9, 12],
        "size_bytes": [400.0, None],
    }
)


@pytest.fixture
def fit_id(make: "Maker") -> str:
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    fit = make.fit("p1")
    make.warehouse.record_fit(fit)
    return fit.fit_id


def kept(make: "Maker") -> list[tuple[object, ...]]:
    query = "SELECT subject_id, operation, server, end_us, size_bytes FROM pred.synthetic_interval"
    return make.rows(f"{query} ORDER BY ALL").rows()


def test_steps_are_kept_and_published(make: "Maker", fit_id: str) -> None:
    make.warehouse.record_intervals(fit_id, "a", ROWS)
    assert kept(make) == [("a", 1, 0, 9, 400.0), ("a", 2, None, 12, None)]


def test_saving_again_replaces_those_of_the_same_scenario(make: "Maker", fit_id: str) -> None:
    make.warehouse.record_intervals(fit_id, "a", ROWS)
    make.warehouse.record_intervals(fit_id, "b", ROWS.tail(1))
    make.warehouse.record_intervals(fit_id, "a", ROWS.head(1))
    assert kept(make) == [("a", 1, 0, 9, 400.0), ("b", 2, None, 12, None)]


def test_the_fit_has_to_be_recorded(make: "Maker", fit_id: str) -> None:
    with pytest.raises(BadInput, match="name fit nothing, which is not recorded"):
        make.warehouse.record_intervals("nothing", "a", ROWS)
    assert kept(make) == []


def test_all_or_nothing_is_replaced(make: "Maker", fit_id: str) -> None:
    make.warehouse.record_intervals(fit_id, "a", ROWS)
    backwards = ROWS.with_columns(end_us=pl.col("start_us") - 1)
    with pytest.raises(Exception, match="CHECK constraint"):
        make.warehouse.record_intervals(fit_id, "a", backwards)
    assert len(kept(make)) == 2
