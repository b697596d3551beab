"""A tiny study for real: killed in the middle, resumed, judged, opened in a second round."""

import signal
from pathlib import Path

import pytest

from profilers.clusters import cgroups, netns, owner
from profilers.steady.hostlock import host_lock
from tests.pipelines.ran import Started, stepcast
from warehouse.landing import landed_runs
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

pytestmark = pytest.mark.cluster

STUDY = """
name: tiny
description: the smallest study that runs every probe
backend: emulated
systems: [async_sgd, linear]
probes:
  links: {flows: [1], seconds: 1, trials: 1}
  tf_trace: {traced_steps: 10, untraced_steps: 4}
  tf_throughput: {windows: 1, window_s: 3}
test:
  - {dnn: small_cnn, image_size: 16, batch_size: 2, worker: quick, server: emu.server,
     link_mbps: 200, workers: [1, 2]}
"""
SYSTEMS = ("async_sgd", "linear")


def test_a_study_survives_kills_and_judges_what_it_predicted(home: Path, tmp_path: Path) -> None:
    study = tmp_path / "tiny.yaml"
    study.write_text(STUDY)
    # The smaller its share of a core is, the longer programs start.
    (home / "node-types.yaml").write_text("quick: {bandwidth_mbps: 200, cpu_share: 0.7}")

    process = Started(home, "run", str(study))
    process.match("(measure small_cnn 16px b2, 200 Mb/s, W=2)")
    assert process.end(signal.SIGKILL)[0] == -signal.SIGKILL, process.told
    interrupted = landed_runs(home / "landing")
    assert sorted(run.probe for run in interrupted) == ["links", "tf_throughput", "tf_trace"]
    assert Warehouse(home).query("predictions", study="tiny", repeat=1).height == 2 * len(SYSTEMS)

    again = Started(home, "run", str(study))
    assert again.process.wait(400) == 0, again.told
    printed = again.told
    assert "W=2" in printed
    assert "n = 1" in printed or "the host being busy: 1" in printed
    runs = landed_runs(home / "landing")
    assert sorted(run.probe for run in runs) == [
        "links",
        "tf_throughput",
        "tf_throughput",
        "tf_trace",
    ]
    assert {run.run_id for run in interrupted} < {run.run_id for run in runs}
    assert {run.repeat for run in runs} == {1}
    with host_lock():
        left = [name for name in netns.namespaces() if owner.is_orphan(name)]
        left += [name for name in cgroups.names(owner.PREFIX) if owner.is_orphan(name)]
        assert left == []

    order = read_only(
        home,
        "SELECT (SELECT max(made_at) FROM pred.ledger) < (SELECT min(started_at) FROM raw.run "
        "WHERE probe = 'tf_throughput') AS predicted_first",
    )
    assert order["predicted_first"].to_list() == [True]
    rows = read_only(home, "SELECT system, split FROM report.accuracy ORDER BY ALL").rows()
    assert rows == [
        (system, split) for system in SYSTEMS for split in ("held_out_world_size", "seen")
    ]
    assert "<svg" in (home / "report.html").read_text()

    leaderboard = stepcast("accuracy", "--json").content
    keys = "system backend split metric n busy_n mape median_ape p90_ape max_ape noise_floor"
    assert {tuple(row) for row in leaderboard} == {tuple(keys.split())}
    assert {row["backend"] for row in leaderboard} == {"emulated"}
    assert all(row["n"] + row["busy_n"] == 1 for row in leaderboard)
    assert all(row["noise_floor"] is None for row in leaderboard)
