"""A type that was made slower is found, and a real daemon profiles it again.

The slowdown is real, and nobody who measures knows of it: whatever nodes come up get less of a core
than their type says.
"""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic, sleep

import polars as pl
import pytest
from dagster import DagsterRunStatus

from fleet.history import runs
from profilers.clusters import cgroups, owner
from profilers.probes import PROBES
from profilers.steady.gauges import background_thread
from profilers.watch import probe as watch
from tests.pipelines import ran
from tests.pipelines.ran import statuses
from warehouse.home import CHECKOUT
from warehouse.landing import land, landed_runs, read_tables
from warehouse.records import Run
from warehouse.warehouse import Warehouse, read_only

SHARE = 0.3
TYPE = f"box: {{bandwidth_mbps: 200, cpu_share: {SHARE}, usd_per_hour: 0.05}}\n"
SLOWDOWN = 1.6
QUESTION = (
    "--dnn small_cnn --framework pytorch --strategy all_reduce --image-size 24 --batch-size 4 "
    "--workers 1 --worker box --link-mbps 200 --systems ideal_scaling --json"
)
NIGHTS = 8


class TwoTurns(watch.Settings):
    """Of a watch: a slowdown like this one is found in two turns of its five."""

    turns: int = 2


_PATIENCE_S = 300.0


@contextmanager
def slowed() -> Iterator[None]:
    """Let nodes have so much less of a core than their type says while the block runs."""
    controller = cgroups.controllers()["cpu"]

    def keep_slow(over: Event) -> None:
        seen: Counter[str] = Counter()
        while not over.wait(0.1):
            for name in cgroups.names(owner.PREFIX):
                seen[name] += 1
                # Once, when it is whole: each change begins a period with a quota of its own.
                if seen[name] == 10:
                    cgroups.stretch_quota(controller, name, SHARE, SLOWDOWN)

    with background_thread(keep_slow, "slowdown"):
        yield


def stepcast(*arguments: str) -> str:
    """Run the command line in this process, and return what it printed."""
    done = ran.stepcast(*arguments)
    assert done.code == 0, done.out + done.err
    return done.out


@contextmanager
def daemon(home: Path) -> Iterator[Callable[[], str]]:
    """Run Dagster's daemon for a block; yields what returns its log."""
    log = home / "daemon.log"
    module = ["-m", "pipelines.definitions", "--working-directory", str(CHECKOUT)]
    environment = {**os.environ, "STEPCAST_HOME": str(home), "DAGSTER_HOME": str(home)}
    with (
        log.open("w") as out,
        subprocess.Popen(
            [Path(sys.executable).with_name("dagster-daemon"), "run", *module],
            env=environment,
            cwd=home,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield log.read_text
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def visited(home: Path) -> int:
    """Return how many visits of the fleet have landed."""
    return len({run.repeat for run in runs(home) if run.study == "fleet.box"})


def wait_for(done: Callable[[], bool], log: Callable[[], str]) -> None:
    """Wait until something is the case."""
    until = monotonic() + _PATIENCE_S
    while not done():
        assert monotonic() < until, log()[-3000:]
        sleep(1)


def nights_before(home: Path, probe: Run) -> None:
    """Land earlier nights: copies of a real probe, a hundredth apart at most."""
    landing, chance = home / "landing", Random(31)
    table = pl.from_arrow(read_tables(landing / probe.run_id)["sample"])
    assert isinstance(table, pl.DataFrame)
    for night in range(NIGHTS):
        at = probe.started_at - timedelta(days=NIGHTS - night)
        name = f"{at:%Y%m%dT%H%M%S}-watch-{uuid.uuid4().hex[:8]}"
        changes = {"run_id": name, "started_at": at, "ended_at": at + timedelta(seconds=35)}
        factor = 1 + chance.uniform(-0.005, 0.005)
        sample = table.drop("run_id").with_columns(pl.col("value") * factor)
        land(
            landing,
            probe.model_copy(update=changes | {"repeat": 2 + night}),
            None,
            {"sample": sample},
        )


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_a_slowdown_is_found_and_profiled_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what opening the history sets
    monkeypatch.setitem(PROBES, "watch", replace(PROBES["watch"], settings=TwoTurns))
    home.mkdir(parents=True, exist_ok=True)
    (home / "node-types.yaml").write_text(TYPE)
    small = "--image-size 24 --batch-size 4"
    stepcast(*f"fleet add box --probes torch_compute --every night {small}".split())
    stepcast("fleet", "run")
    assert visited(home) == 1
    (probe,) = (run for run in landed_runs(home / "landing") if run.probe == "watch")
    fast = json.loads(stepcast("predict", *QUESTION.split()))["forecasts"][0]
    assert fast["changed_since"] == []

    nights_before(home, probe)
    with slowed():
        stepcast("fleet", "run", "box", "--watch")
        alarms = read_only(home, "SELECT metric, confirmed, change_percent FROM report.alarm")
        assert {"watch_step_time_s", "watch_cpu_share"} & {*alarms.filter("confirmed")["metric"]}
        stale = json.loads(stepcast("predict", *QUESTION.split()))["forecasts"][0]
        assert {change["node_type"] for change in stale["changed_since"]} == {"box"}
        assert stale["value"] == fast["value"]
        assert Warehouse(home).query("stale_fits").height

        stepcast("fleet", "resume")
        with daemon(home) as log:
            wait_for(lambda: visited(home) == 2, log)
            wait_for(lambda: {DagsterRunStatus.SUCCESS} == {*statuses(home)}, log)
        slow = json.loads(stepcast("predict", *QUESTION.split()))["forecasts"][0]
        assert slow["changed_since"] == []
        assert slow["value"] > 1.2 * fast["value"]
    assert "done" in stepcast("fleet", "status")
