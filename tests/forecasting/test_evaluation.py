"""An evaluation has what its round has runs for, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forecasting.evaluation import evaluate
from forecasting.findings.papers import PaperEvaluation, evaluate_papers
from studies.rounds import Round
from tests.synthetic import STUDY
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
    assert (evaluated.round.study.name, evaluated.round.repeat) == ("paper", 1)
    assert evaluated.rows.height == 4
    assert evaluated.summary.n == evaluated.systems.height == 0


def test_a_round_of_traces_is_about_traces(evaluation: Callable[[str], PaperEvaluation]) -> None:
    evaluated = evaluation(STUDY)
    assert (evaluated.study, evaluated.repeat) == ("paper", 1)
    shown = {(paper, figure.title) for paper, figure, _ in evaluated.shown}
    assert shown == {
        ("async_sgd", "Examples a second by number of workers"),
        ("async_sgd", "How workers drift apart after the start"),
        ("async_sgd", "What a profiled step consists of"),
    }, "nothing was judged, captured, reduced or reused"
