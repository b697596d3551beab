"""One variable of 400 kB can only be on one server."""

from pathlib import Path

from forecasting.findings.async_sgd import servers as placed
from forecasting.simulations import FittedModels
from reports import async_sgd
from studies.rounds import Round
from tests.reports.pages import cells


def test_variables_are_divided_among_servers(round_: Round, landing: Path) -> None:
    html = async_sgd.servers_section(placed(round_, landing, FittedModels(round_, landing)))
    assert cells(html)[1] == ["small_cnn", "1", "2", "round robin", "0.40 MB", "100.0 %"]
    assert len(cells(html)) == 9
