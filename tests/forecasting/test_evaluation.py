"""An evaluation has what its round has runs for, and nothing else."""

from collections.abc import Callable
from pathlib import Path

from forecasting.evaluation import evaluate
from forecasting.findings.papers import evaluate_papers
from studies.rounds import Round
from tests.synthetic import STUDY
from warehouse.warehouse import Warehouse


def test_a_round_of_traces_has_its_scenarios_and_is_about_traces(
    landed_round: Callable[[str], Round], home: Path
) -> None:
    round_, warehouse = landed_round(STUDY), Warehouse(home)
    warehouse.load()
    evaluated = evaluate(round_, warehouse)
    assert (evaluated.round.study.name, evaluated.round.repeat) == ("paper", 1)
    assert evaluated.rows.height == 4
    assert evaluated.summary.n == evaluated.systems.height == 0
    of_papers = evaluate_papers(round_, warehouse)
    assert (of_papers.study, of_papers.repeat) == ("paper", 1)
    shown = {(paper, figure.title) for paper, figure, _ in of_papers.shown}
    assert shown == {
        ("async_sgd", "Examples a second by number of workers"),
        ("async_sgd", "How workers drift apart after the start"),
        ("async_sgd", "What a profiled step consists of"),
    }, "nothing was judged, captured, reduced or reused"
