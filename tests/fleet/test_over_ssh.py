"""A member whose nodes are machines of one's own, for real: two sshd's of this host."""

from pathlib import Path
from typing import Any

import pytest

from fleet.history import runs
from fleet.schedule import visits, watches
from fleet.watch import watch
from profilers.clusters import Cluster
from profilers.clusters.fleet import VARIABLE
from profilers.probe import ProbeResult, RunContext, Say
from profilers.watch import probe
from studies.measurement import profile
from studies.messages import Progress
from tests.fleet.made import member
from tests.profilers.clusters.machines import NODE_TYPE, machines
from warehouse.warehouse import Warehouse


@pytest.mark.exhaustive
@pytest.mark.sshd
def test_machines_are_watched_and_profiled(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = probe.measure

    def shorter(cluster: Cluster, context: RunContext, *, progress: Say, **_: Any) -> ProbeResult:
        return measure(
            cluster, context, turns=2, compute_s=1, memory_s=0.5, links_s=1, progress=progress
        )

    monkeypatch.setattr(probe, "measure", shorter)
    warehouse = Warehouse(home)
    with machines(tmp_path, 2) as fleet:
        monkeypatch.setenv(VARIABLE, str(fleet))
        of = member(NODE_TYPE, probes=("links",), workers=1, backend="ssh")
        judged = watch([watches(of, [])], warehouse, Progress())
        assert {probe.STEP_TIME, probe.MEMORY, probe.TO_SERVER} <= {*judged["metric"]}
        assert {*judged["outcome"]} == {"too_few"}
        profile(visits(of, []).round_, "links", warehouse.landing, Progress())
        warehouse.load()
        known = runs(home)
        assert {run.backend for run in known} == {"ssh"}
        assert visits(of, known).last_ended is not None
        assert watches(of, known).last_ended is not None
