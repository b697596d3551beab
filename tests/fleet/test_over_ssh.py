"""A member whose nodes are machines of one's own, for real: two sshd's of this host."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from fleet.history import runs
from fleet.schedule import visits, watches
from fleet.watch import watch
from profilers.clusters.fleet import VARIABLE
from profilers.probe import Measured, PlannedRun, Session
from profilers.probes import PROBES
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
    quick = {"turns": 2, "compute_s": 1, "memory_s": 0.5, "links_s": 1}

    def shorter(session: Session, needs: Sequence[PlannedRun]) -> Iterable[Measured]:
        return probe.PROBE.run(session, [replace(need, settings=quick) for need in needs])

    of_less = replace(probe.PROBE, run=shorter)
    monkeypatch.setitem(cast(dict[str, Any], PROBES), "watch", of_less)
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
