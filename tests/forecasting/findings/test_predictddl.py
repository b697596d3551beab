"""A round with reused models: workloads, forecasts by network and servers, and time before them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from forecasting.evaluation import SCHEMA
from forecasting.findings import predictddl
from forecasting.findings.figure import MeasuredRound
from forecasting.findings.predictddl import ROWS, SEEN, errors_by_servers, score_forecasts
from networks import extraction
from studies.rounds import Round
from tests.forecasting.findings.made_up_round import RUN_S, graphs, judged, landed
from tests.made_run import made_fit
from tests.pipelines.service.made_up import at_hand
from warehouse.warehouse import Warehouse

YEARS_LATER = datetime(2031, 1, 1, tzinfo=UTC)
FACTORS = {"predictddl": 1.1, "predictddl_paper": 3.0, "ernest_pooled": 0.5}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Round, Path]:
    folder = tmp_path_factory.mktemp("reused") / "landing"
    with pytest.MonkeyPatch.context() as patch:
        return landed(folder, patch), folder


@pytest.fixture(scope="module")
def found(made: tuple[Round, Path]) -> Iterator[MeasuredRound]:
    round_, folder = made
    warehouse = Warehouse(folder.parent)
    warehouse.load()
    profiles = [run.run_id for run in round_.runs if run.purpose == "profile"]
    fit = made_fit("predictddl_paper", *profiles, backend="loopback", created_at=YEARS_LATER)
    warehouse.record(fits=[fit])
    of = MeasuredRound(round_, warehouse)
    forecasts = judged(round_, FACTORS).with_columns(fit_id=pl.lit(fit.fit_id))
    vars(of).update(judged=forecasts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extraction, "_PRIMITIVES", at_hand(graphs()))
        yield of


def rows_of(frame: pl.DataFrame | None) -> pl.DataFrame:
    assert frame is not None
    return frame


def test_workloads_are_those_measured_and_how_they_are_known(found: MeasuredRound) -> None:
    rows = {row[0]: row[1:] for row in rows_of(predictddl.workloads(found)).iter_rows()}
    assert rows == {
        "resnet18": ("resnet", "trained on", 5, 1),
        "vgg11": ("vgg", "trained on", 4, 0),
        "squeezenet": ("squeezenet", "of another family", 2, 2),
        "mobilenet": ("mobilenet", "of another family", 2, 2),
    }


def test_the_ledger_is_taken_as_it_is(found: MeasuredRound) -> None:
    errors = rows_of(predictddl.ledger_errors(found)).to_dicts()
    overall = {(row["of"], row["split"]): row for row in errors}
    assert overall.keys() == {(of, s) for of in FACTORS for s in ("seen", "other networks")}
    for (system, split), row in overall.items():
        assert row["n"] == (1 if split == "seen" else 4)
        assert row["ratio"] == pytest.approx(FACTORS[system])
        assert row["error_percent"] == pytest.approx(100 * abs(FACTORS[system] - 1))
    by_servers = rows_of(predictddl.servers(found))
    assert set(by_servers["of"]) == {"predictddl", "predictddl_paper"}


def test_figures_of_a_group_are_those_by_hand() -> None:
    rows = [("a", SEEN, "ant", 4, 3.0, 2.0), ("a", SEEN, "ant", 2, 1.0, 2.0)]
    rows += [("b", SEEN, "ant", 2, 2.0, 2.0)]
    scores = score_forecasts(pl.DataFrame(rows, schema=ROWS, orient="row"))
    # 1.5 and 0.5 times what was measured, each 1 s off.
    assert scores.rows() == [("a", SEEN, 2, 1.0, 50.0, 1.0), ("b", SEEN, 1, 1.0, 0.0, 0.0)]
    workers = score_forecasts(pl.DataFrame(rows, schema=ROWS, orient="row"), "workers")
    assert workers["workers"].to_list() == [2, 2, 4]


def test_too_fast_and_too_slow_do_not_cancel_across_networks() -> None:
    """Half and three halves of the time are 50 % off each, though they are right in the mean."""
    rows = [("a", SEEN, "ant", 2, 1.0, 2.0), ("a", SEEN, "bee", 2, 3.0, 2.0)]
    rows += [("a", SEEN, "bee", 2, 2.0, 2.0), ("a", SEEN, "ant", 4, 2.2, 2.0)]
    by_servers = score_forecasts(pl.DataFrame(rows, schema=ROWS, orient="row"), "dnn", "workers")
    two, four = errors_by_servers(by_servers).to_dicts()
    assert (two["networks"], two["n"], four["networks"], four["n"]) == (2, 3, 1, 1)
    assert two["error_percent"] == pytest.approx(100 / 3)
    assert (two["least_percent"], two["most_percent"]) == pytest.approx((25, 50))
    assert (two["lowest"], two["highest"]) == pytest.approx((0.5, 1.25))
    assert four["error_percent"] == pytest.approx(10)


def test_runs_that_serve_several_workloads_count_once(found: MeasuredRound) -> None:
    rows = rows_of(predictddl.waiting(found))
    for name in FACTORS:
        of = rows.filter(system=name)
        assert of["measuring_s"].to_list() == [8 * RUN_S] * 3
        assert of["n"].to_list() == [1, 3, 5]
        errors = [100 * abs(FACTORS[name] - 1)] * 3
        assert of["error_percent"].to_list() == pytest.approx(errors)


def test_without_a_reused_model_there_is_nothing(found: MeasuredRound) -> None:
    of = MeasuredRound(found.round, found.warehouse)
    for forecasts in (pl.DataFrame(schema=SCHEMA), judged(found.round, {"ernest_pooled": 1.0})):
        vars(of).update(judged=forecasts)
        assert {figure.rows(of) is None for figure in predictddl.FIGURES} == {True}
