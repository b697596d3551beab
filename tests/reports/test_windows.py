"""The tensors of the curves on paper are longer than their window."""

from pathlib import Path

from forecasting.findings.async_sgd import windows as sensitivities
from forecasting.packet_captures import CapturedProfile
from forecasting.simulations import FittedModels
from reports import async_sgd
from studies.rounds import Round
from tests.reports.pages import cells


def test_without_captures_the_window_is_not_known() -> None:
    assert async_sgd.windows_section(sensitivities([], {})) == ""


def test_sensitivity_names_the_announced_window(
    captured_round: Round, captured: list[CapturedProfile], landing: Path
) -> None:
    models = FittedModels(captured_round, landing)
    by_run = {run.run_id: models[part] for part, run in captured_round.runs_of("tf_trace").items()}
    rows = cells(async_sgd.windows_section(sensitivities(captured, by_run)))[1:]
    assert [row[2] for row in rows] == ["2", "3", "4"] * 2
    # A window of 1.5 times 0.3 MB is longer than the tensors.
    assert {(row[1], row[-1]) for row in rows} == {("0.286102 MiB, announced", "+0.0 %")}
