"""A graph that cannot be had is a refusal of the system that needs it, whatever the reason."""

import sys
from pathlib import Path

import pytest

from models.ceer.fit import FittedCeer
from models.predictddl.systems import PREDICTDDL
from models.system import NotCovered
from tests.models.ceer import study as ceer
from tests.models.ceer.test_fit import model
from tests.models.predictddl import study as networks
from warehouse.records import Scenario

SHORT_OF_MEMORY = "could not be extracted: SIGKILL ended the process"


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel end each child process that extracts a graph."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.usefixtures("killed")
def test_ceer_refuses_a_network_whose_graph_cannot_be_extracted() -> None:
    fit = FittedCeer(model().parameters)
    scenario = _at_41_pixels(ceer.scenario("squeezenet", "slow", 2))
    with pytest.raises(NotCovered, match=f"^the graph of squeezenet {SHORT_OF_MEMORY}"):
        fit.predict([scenario])


def test_ceer_refuses_a_network_that_has_no_graph() -> None:
    with pytest.raises(NotCovered, match="unknown DNN 'g'"):
        FittedCeer(model().parameters).predict([ceer.scenario("g", "slow", 2)])


@pytest.mark.usefixtures("killed")
def test_predictddl_is_not_fitted_to_networks_whose_graphs_cannot_be_extracted() -> None:
    made = [_at_41_pixels(networks.scenario(dnn, 2, 4)) for dnn in ("vgg11", "squeezenet")]
    with pytest.raises(NotCovered, match=f"^the graph of vgg11 {SHORT_OF_MEMORY}"):
        PREDICTDDL.fit(networks.raw_tables(made))


def _at_41_pixels(scenario: Scenario) -> Scenario:
    """Return a scenario of images that no other test asks about: no graph of them is at hand."""
    load = scenario.workload.model_copy(update={"image_size": 41})
    return scenario.model_copy(update={"workload": load})
