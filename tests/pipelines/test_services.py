"""Dagster as services: its history in PostgreSQL, its queue, and a password in front.

A daemon that is killed loses no run and doubles none.
"""

import base64
import http.client
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import which
from threading import Thread
from time import monotonic, sleep

import dagster as dg
import pytest
import uvicorn
from dagster_graphql import DagsterGraphQLClient
from fastapi import FastAPI, Request, WebSocket
from gql.transport.requests import RequestsHTTPTransport
from requests.auth import HTTPBasicAuth
from websockets.sync.client import connect

from pipelines import dagster_history
from pipelines.definitions import defs
from tests import postgres
from tests.pipelines.proxy import PASSWORD, USER, Proxy, proxy, wait_for_port
from tests.pipelines.queue_jobs import FOLDER
from tests.ports import free_port
from warehouse.home import CHECKOUT
from warehouse.records import BadInput, StepcastError

SERVICES = CHECKOUT / "deploy/services"
PARTS = ("code", "daemon", "web")
_PATIENCE_S = 120.0
_AUTHORIZATION = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@dg.job
def nothing() -> None:
    """Do nothing."""


# The history.


@pytest.fixture
def no_dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back afterwards what opening the history sets."""
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")


@pytest.mark.services
@pytest.mark.usefixtures("no_dagster_home")
def test_the_history_is_in_postgres_and_no_password_in_a_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.cluster(postgres.NOT_SYNCED) as cluster:
        monkeypatch.setenv(dagster_history.POSTGRES, cluster.url)
        with dagster_history.instance(home) as instance:
            run_id = nothing.execute_in_process(instance=instance).run_id
        with dg.DagsterInstance.get() as instance:
            assert [run.run_id for run in instance.get_runs()] == [run_id]
    gone = "STEPCAST_POSTGRES: connection to server .* refused"
    with pytest.raises(StepcastError, match=gone) as error:
        dagster_history.prepare(home)
    assert "hunter2" not in str(error.value)
    assert not list(home.rglob("*.db"))
    assert "hunter2" not in (home / "dagster.yaml").read_text()
    monkeypatch.delenv(dagster_history.POSTGRES)
    with pytest.raises(BadInput, match="are in PostgreSQL: set STEPCAST_POSTGRES"):
        dagster_history.prepare(home)


@pytest.mark.usefixtures("no_dagster_home")
@pytest.mark.parametrize(
    "url", ["mysql://host/lab", "postgresql://host", "postgresql://host:x/lab", "lab"]
)
def test_a_variable_that_names_no_database_is_refused(
    url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(dagster_history.POSTGRES, url)
    with pytest.raises(BadInput, match="expected postgresql://"):
        dagster_history.prepare(home)


# The proxy.


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Yield a proxy in front of a server that says what it was sent."""
    app = FastAPI()

    @app.post("/graphql")
    async def graphql(request: Request) -> dict[str, object]:
        return {"asked": await request.json(), "password": request.headers.get("authorization")}

    @app.websocket("/graphql")
    async def follow(socket: WebSocket) -> None:
        await socket.accept("graphql-ws")
        await socket.send_text(await socket.receive_text())

    server = uvicorn.Server(uvicorn.Config(app, port=(port := free_port()), log_level="error"))
    thread = Thread(target=server.run)
    thread.start()
    try:
        with proxy(tmp_path_factory.mktemp("proxy"), port) as nginx:
            yield nginx
    finally:
        server.should_exit = True
        thread.join()


def ask(to: Proxy, authorization: str | None) -> tuple[int, bytes]:
    """Return status and body of the answer to a question in GraphQL."""
    line = http.client.HTTPSConnection("127.0.0.1", to.https, context=to.trusted, timeout=20)
    headers = {"Content-Type": "application/json"}
    if authorization is not None:
        headers["Authorization"] = authorization
    line.request("POST", "/graphql", '{"query": "{version}"}', headers)
    answer = line.getresponse()
    return answer.status, answer.read()


@pytest.mark.services
@pytest.mark.parametrize("authorization", [None, "Basic YWRhOndyb25n", _AUTHORIZATION])
def test_the_proxy_lets_nobody_through_without_the_password(
    guarded: Proxy, authorization: str | None
) -> None:
    status, body = ask(guarded, authorization)
    if authorization != _AUTHORIZATION:
        assert status == 401
        return
    assert status == 200
    assert json.loads(body) == {"asked": {"query": "{version}"}, "password": None}


@pytest.mark.services
def test_websockets_pass_with_the_password_alone(guarded: Proxy) -> None:
    where = f"wss://localhost:{guarded.https}/graphql"
    with connect(
        where,
        ssl=guarded.trusted,
        subprotocols=["graphql-ws"],  # type: ignore[list-item]
        additional_headers={"Authorization": _AUTHORIZATION},
    ) as socket:
        socket.send("hello")
        assert socket.recv(20) == "hello"
    with pytest.raises(Exception, match="401"), connect(where, ssl=guarded.trusted):
        pass


# The files of deploy/services.


def test_the_unit_starts_what_the_command_line_knows(tmp_path: Path) -> None:
    unit = SERVICES / "stepcast@.service"
    (program,) = re.findall(r"^ExecStart=(\S+) ui --only %i$", unit.read_text(), re.MULTILINE)
    if verify := which("systemd-analyze"):
        installed = sysconfig.get_path("scripts") + "/stepcast"
        for part in PARTS:
            copy = tmp_path / unit.name.replace("@", f"@{part}")
            copy.write_text(unit.read_text().replace(program, installed))
            done = subprocess.run([verify, "verify", copy], capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")


def test_what_costs_goes_first_and_the_fleet_last() -> None:
    priorities = {
        name: int(defs.resolve_job_def(name).tags.get("dagster/priority", 0))
        for name in ("reap", "demo", "fleet_profiles", "fleet_watch")
    }
    assert priorities == {"reap": 10, "demo": 0, "fleet_profiles": -1, "fleet_watch": -1}


# All of it: the queue behind the proxy, on PostgreSQL, with a daemon that is killed.


class Services:
    """The three services of a home, of which code serves `queue_jobs`; and what was asked of them.

    Attributes:
        folder: where jobs log; the pipe in it lets what measures go on.
        web: the port of the web interface.
    """

    def __init__(self, home: Path, folder: Path, stack: ExitStack) -> None:
        self.folder, self.web, self._stack = folder, free_port(), stack
        self._code = f"127.0.0.1:{free_port()}"
        self._environment = {**os.environ, "STEPCAST_HOME": str(home), FOLDER: str(folder)}
        os.mkfifo(folder / "pipe")
        dagster_history.prepare(home)
        self._environment |= {
            name: os.environ[name] for name in ("DAGSTER_HOME", dagster_history.POSTGRES)
        }
        host, _, port = self._code.partition(":")
        where = ["-m", "tests.pipelines.queue_jobs", "--working-directory", str(CHECKOUT)]
        self._start("dagster", "code-server", "start", *where, "--host", host, "--port", port)
        wait_for_port(int(port))

    def start(self, part: str) -> "subprocess.Popen[bytes]":
        """Start a service as its unit does."""
        return self._start(
            "pipelines.cli.main",
            "ui",
            "--only",
            part,
            "--code",
            self._code,
            "--port",
            str(self.web),
        )

    def _start(self, module: str, *arguments: str) -> "subprocess.Popen[bytes]":
        log = self._stack.enter_context((self.folder / f"{arguments[0]}.out").open("ab"))
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=self._environment,
            cwd=CHECKOUT,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(process.wait, 60)
        self._stack.callback(process.terminate)
        return process

    def log(self) -> list[str]:
        """Return what jobs have logged."""
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def wait(self, done: Callable[[], bool]) -> None:
        """Wait until something is the case."""
        until = monotonic() + _PATIENCE_S
        while not done():
            output = "".join(path.read_text()[-2000:] for path in self.folder.glob("*.out"))
            assert monotonic() < until, f"{self.log()}\n{output}"
            sleep(0.1)

    def release(self) -> None:
        """Let the run that measures end; waits for one that does."""
        (self.folder / "pipe").write_bytes(b"")


def client_of(nginx: Proxy) -> DagsterGraphQLClient:
    """Return what asks the web interface through the proxy."""
    transport = RequestsHTTPTransport(
        f"https://127.0.0.1:{nginx.https}/graphql",
        auth=HTTPBasicAuth(USER, PASSWORD),
        verify=str(nginx.certificate),
        use_json=True,
    )
    return DagsterGraphQLClient("127.0.0.1", transport=transport)


@pytest.mark.exhaustive
@pytest.mark.services
@pytest.mark.usefixtures("no_dagster_home")
def test_a_killed_daemon_loses_no_run_and_doubles_none(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "queue"
    folder.mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(postgres.cluster(postgres.NOT_SYNCED)).url
        monkeypatch.setenv(dagster_history.POSTGRES, url)
        services = Services(home, folder, stack)
        daemon = services.start("daemon")
        services.start("web")
        client = client_of(stack.enter_context(proxy(tmp_path, services.web)))

        def submit(name: str, priority: int = 0) -> str:
            return client.submit_job_execution(name, tags={"dagster/priority": str(priority)})

        wait_for_port(services.web)
        first = submit("measure")
        services.wait(lambda: services.log() == [f"began {first}"])
        later, sooner = submit("measure", -1), submit("measure", 5)
        passing = submit("forecast", -2)
        services.wait(lambda: f"forecast {passing}" in services.log())
        assert services.log() == [f"began {first}", f"forecast {passing}"], "the pool is taken"

        daemon.kill()
        daemon.wait()
        services.release()
        services.wait(lambda: f"ended {first}" in services.log())
        services.start("daemon")
        services.release()
        services.wait(lambda: f"ended {sooner}" in services.log())
        services.release()
        services.wait(lambda: f"ended {later}" in services.log())
        ran = [f"{what} {run}" for run in (first, sooner, later) for what in ("began", "ended")]
        assert services.log() == [ran[0], f"forecast {passing}", *ran[1:]]
        with dg.DagsterInstance.get() as instance:
            services.wait(lambda: {run.status.value for run in instance.get_runs()} == {"SUCCESS"})
            assert instance.get_runs_count() == 4


@pytest.mark.services
def test_plain_http_leads_to_tls(guarded: Proxy) -> None:
    line = http.client.HTTPConnection("127.0.0.1", guarded.http, timeout=20)
    line.request("GET", "/runs", headers={"Authorization": _AUTHORIZATION})
    answer = line.getresponse()
    assert (answer.status, answer.headers["Location"]) == (301, "https://127.0.0.1/runs")
