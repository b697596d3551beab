from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from warehouse.records import BadInput
from warehouse.warehouse import QUERIES

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

FILES = sorted(QUERIES.glob("*.sql"))


@pytest.fixture
def told(make: "Maker") -> "Maker":
    """Return a maker whose warehouse has one prediction of two workers, judged once."""
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    fit = make.fit("p1")
    make.warehouse.record_fit(fit)
    make.warehouse.record_predictions([make.prediction(fit, make.scenario(2), 2.0)])
    make.measure("m1", make.scenario(1), [1.2, 1.4], minute=5)
    make.measure("m2", make.scenario(2), [2.4, 2.6], minute=6)
    make.warehouse.load()
    return make


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_query_says_its_question_and_runs(told: "Maker", file: Path) -> None:
    header = file.read_text().partition("\n")[0]
    assert header.startswith("-- ")
    assert "?" in header
    assert told.warehouse.query(file.stem).width > 3


def test_accuracy_is_the_table_of_the_command_line(told: "Maker") -> None:
    (row,) = told.warehouse.query("accuracy", study="demo", repeat=1).to_dicts()
    assert row["label"] == told.scenario(2).label
    assert (row["predicted"], row["measured"], row["split"]) == (2.0, 2.5, "held_out_world_size")
    assert told.warehouse.query("accuracy", study="other").is_empty()
    assert told.warehouse.query("accuracy", metric="step_time_s").is_empty()


def test_runs_lists_all_runs_of_a_study(told: "Maker") -> None:
    runs = told.warehouse.query("runs", study="demo")
    assert runs["run_id"].to_list() == ["p1", "m1", "m2"]
    assert runs["seconds"].to_list() == [30.0] * 3
    assert told.warehouse.query("runs", study="other").is_empty()


def test_scaling_has_measured_and_predicted_side_by_side(told: "Maker") -> None:
    columns = ["workers", "system", "predicted", "measured", "runs"]
    rows = told.warehouse.query("scaling").select(columns).rows()
    assert rows == [(1, None, None, pytest.approx(1.3), 1), (2, "async_sgd", 2.0, 2.5, 1)]


def test_unknown_queries_and_parameters_are_named(told: "Maker") -> None:
    with pytest.raises(BadInput, match=r"no query 'acuracy'; the queries are accuracy, "):
        told.warehouse.query("acuracy")
    with pytest.raises(BadInput, match="query runs has no parameter studdy"):
        told.warehouse.query("runs", studdy="demo")
