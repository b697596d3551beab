"""One variable of 400 kB can only be on one server."""

from pathlib import Path

from assets.rounds import Round
from assets.sections import servers
from assets.simulations import FittedModels
from tests.assets.pages import cells


def test_variables_are_divided_among_servers(round_: Round, landing: Path) -> None:
    html = servers.section(round_, landing, FittedModels(round_, landing))
    assert cells(html)[1] == ["small_cnn", "1", "2", "round robin", "0.40 MB", "100.0 %"]
    assert len(cells(html)) == 9
