"""What tests of the service share: a history of made-up steps, and a client that has the token."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from starlette.testclient import TestClient

from models.predictddl import residuals
from pipelines.service.app import service
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from pipelines.service.contracts import Answer, Forecast, Workload
from pipelines.service.engine import Engine
from pipelines.service.node_selection import NodeSelection
from tests.pipelines.service import made_up
from warehouse.warehouse import Warehouse

TOKEN = "a-token-of-tests"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Return the engine of a home with made-up steps; it is fitted once a file."""
    folder = tmp_path_factory.mktemp("made-up")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(folder))
        # Choosing among all regressors takes seconds, and is tested where they are.
        for name in [regressor for regressor in residuals.REGRESSORS if regressor != "none"]:
            patch.delitem(residuals.REGRESSORS, name)
        made_up.install(folder, patch)
        yield Engine(Warehouse(folder))


class Halves(Engine):
    """Stands in for the engine where HTTP is what is tested: a step is half a second a node."""

    def __init__(self) -> None:
        """Need no history."""

    def answer(
        self,
        workloads: Sequence[Workload],
        nodes: NodeSelection,
        begun: Mapping[str, Forecast] = MappingProxyType({}),
    ) -> Answer:
        """Return the same of every workload."""
        step_s = sum(group.count for group in nodes.groups) / 2
        made = Forecast(status="forecast", step_time_s=step_s)
        return Answer(
            forecasts=[begun.get(workload.dataset.type, made) for workload in workloads],
            nodes=nodes.counts,
            devices_per_node=nodes.devices,
            backend="emulated",
            host_id="host-1",
        )


@pytest.fixture
def collector() -> Collector:
    """Return a collector that keeps nobody waiting."""
    return Collector(held_s=0.0, refreshed_s=0.0)


@pytest.fixture
def checker(home: Path) -> Iterator[Checker]:
    """Return a checker of a home in which digits are known, and that trains by doing nothing."""
    (home / "embedders").mkdir()
    (home / "embedders" / "digits.safetensors").touch()
    checker = Checker(None, 1, ["true"])
    yield checker
    checker.close()


@pytest.fixture
def client(collector: Collector, checker: Checker) -> TestClient:
    """Return a client that has the token."""
    app = service(Halves(), collector, checker, TOKEN)
    return TestClient(
        app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {TOKEN}"}
    )
