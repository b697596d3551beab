"""An evaluation has what its round has runs for, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from forecasting.evaluation import PaperEvaluation, evaluate, evaluate_papers
from forecasting.findings.srift import SriftFindings
from studies.rounds import Round
from tests.reference import REFERENCE, first_round
from tests.synthetic import STUDY
from warehouse.sets import copy_kept_runs
from warehouse.warehouse import Warehouse


@pytest.fixture
def evaluation(
    landed_round: Callable[[str], Round], home: Path
) -> Callable[[str], PaperEvaluation]:
    """Return what evaluates a round of the study with this text, of which nothing was forecast."""

    def run(text: str) -> PaperEvaluation:
        round_ = landed_round(text)
        warehouse = Warehouse(home)
        warehouse.load()
        return evaluate_papers(round_, warehouse)

    return run


def test_a_round_has_its_scenarios_whether_or_not_they_were_judged(
    landed_round: Callable[[str], Round], home: Path
) -> None:
    round_, warehouse = landed_round(STUDY), Warehouse(home)
    warehouse.load()
    evaluated = evaluate(round_, warehouse)
    assert (evaluated.about.study, evaluated.about.repeat) == ("paper", 1)
    assert evaluated.rows.height == 4
    assert evaluated.summary.n == evaluated.systems.height == 0
    assert evaluated.largest_errors is not None and evaluated.largest_errors.is_empty()


def test_a_round_of_traces_is_about_traces(evaluation: Callable[[str], PaperEvaluation]) -> None:
    evaluated = evaluation(STUDY)
    assert (evaluated.about.study, evaluated.about.repeat) == ("paper", 1)
    assert [steps.dnn for steps in evaluated.async_sgd.traced_steps] == [
        "small_cnn",
        "alexnet",
    ]
    assert evaluated.async_sgd.convergence is not None
    assert evaluated.links is not None
    assert {server.dnn for server in evaluated.async_sgd.servers} == {"small_cnn", "alexnet"}
    assert evaluated.srift == SriftFindings(None, None, None)
    assert evaluated.ceer is None
    assert evaluated.errors is None, "nothing was judged"
    assert evaluated.predictddl is None
    assert evaluated.async_sgd.http2 is None
    assert not evaluated.async_sgd.overheads
    assert not evaluated.async_sgd.windows


def test_a_round_of_all_reduces_is_about_all_reduces(home: Path) -> None:
    round_, warehouse = first_round("variance"), Warehouse(home)
    bare = replace(round_, runs=tuple(run for run in round_.runs if run.probe != "allreduce"))
    copy_kept_runs(REFERENCE, warehouse.landing, [run.run_id for run in bare.runs])
    assert evaluate(bare, warehouse).largest_errors is None
    evaluated = evaluate_papers(bare, warehouse)
    assert evaluated.srift.data_parallel is not None and evaluated.srift.components is not None
    assert not evaluated.srift.data_parallel.allreduces
    assert evaluated.srift.components.allreduces is None
    assert evaluated.srift.step_times is None and evaluated.ceer is None
    traced = evaluated.async_sgd
    assert traced.convergence is None
    assert not any((traced.comparisons, traced.traced_steps, traced.servers))
