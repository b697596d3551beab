"""Whose runs answer: of hosts that were profiled on other node types, links and days."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from forecasting.history_scope import RunIndex, VisibleRun, select_host
from forecasting.scope import HistoryScope
from models.gpu_step.system import GPU_STEP
from profilers.steady.host import host_id
from tests.made_run import ddp_curve
from warehouse.records import Backend, BadInput
from warehouse.requirements import Subject

START = datetime(2026, 11, 20, tzinfo=UTC)


def runs(*about: tuple[Backend, str, str, float | None]) -> list[VisibleRun]:
    """Return a run of nodes each, of a backend, a host, a node type and links; the newest first."""
    return [
        VisibleRun(
            run_id=f"{place}",
            subject=Subject("allreduce", None, link_mbps, {"worker": node_type}),
            round=("study", 1),
            backend=backend,
            host_id=host,
            started_at=START - timedelta(hours=place),
        )
        for place, (backend, host, node_type, link_mbps) in enumerate(about)
    ]


GPUS = runs(("loopback", "b", "gpu.h100", None), ("loopback", "a", "gpu.h200", None))


def test_the_newest_host_with_such_nodes_answers() -> None:
    place = select_host(GPUS, [ddp_curve("gpu.h200")], None)
    assert (place.backend, place.host_id) == ("loopback", "a")
    assert not place.is_here and place.elsewhere == ()
    assert select_host(GPUS, [ddp_curve("gpu.h100")], None).host_id == "b"
    # Nobody profiled these, so the newest host says what is lacking.
    assert select_host(GPUS, [ddp_curve("emu.avx2.s15")], None).host_id == "b"


def test_types_of_several_hosts_are_told() -> None:
    place = select_host(GPUS, [ddp_curve("gpu.h200"), ddp_curve("gpu.h100")], None)
    assert (place.host_id, place.elsewhere) == ("b", (("gpu.h200", ("loopback", "a")),))
    of_a, of_b = (ddp_curve(name).scenario(1, "loopback") for name in ("gpu.h200", "gpu.h100"))
    assert place.lacks(of_a) == "gpu.h200 was profiled on another host; --backend loopback --host a"
    assert place.lacks(of_b) is None
    # Whoever names a host wants its runs.
    assert select_host(GPUS, [ddp_curve("gpu.h200")], None, "b").elsewhere == ()


def test_this_host_answers_of_nodes_that_it_has() -> None:
    history = runs(
        ("emulated", "a", "emu.avx2.s15", 500.0), ("loopback", host_id(), "emu.avx512.s15", None)
    )
    assert select_host(history, [ddp_curve("emu.avx2.s15")], None).host_id == "a"
    assert select_host(history, [ddp_curve("emu.avx512.s15")], None).is_here
    assert select_host(history, [ddp_curve("emu.native.s15")], None).is_here


def test_links_decide_between_hosts_with_such_nodes() -> None:
    history = runs(
        ("emulated", "slow", "emu.avx2.s15", 100.0), ("emulated", "fast", "emu.avx2.s15", 1000.0)
    )
    assert select_host(history, [ddp_curve("emu.avx2.s15", link_mbps=1000)], None).host_id == "fast"
    assert select_host(history, [ddp_curve("emu.avx2.s15")], None).host_id == "slow"


def test_a_host_can_be_named() -> None:
    assert select_host(GPUS, [ddp_curve("gpu.h100")], None, "a").host_id == "a"
    with pytest.raises(BadInput, match="no runs of host 'c'; hosts that have some: b, a"):
        select_host(GPUS, [ddp_curve("gpu.h100")], None, "c")
    with pytest.raises(BadInput, match="hosts that have some: none"):
        select_host(GPUS, [ddp_curve("gpu.h100")], "emulated", "a")


def test_optional_runs_of_another_host_refuse_nothing() -> None:
    """A step of a GPU rests on what others measured, and does without an inventory of its node."""
    alone = ddp_curve("gpu.h200", [1], strategy="single", link_mbps=None)
    (scenario,) = alone.scenarios("loopback")
    place = select_host(GPUS, [ddp_curve("gpu.h200"), ddp_curve("gpu.h100")], None)
    assert place.lacks(scenario)
    (public,) = runs(("imported", "a", "", None))
    public = public._replace(subject=Subject("csv", None, None))
    of_node = GPUS[0]._replace(subject=replace(GPUS[0].subject, probe="inventory"))
    for measured in ([public], [public, of_node]):
        scope = HistoryScope(place, RunIndex(measured), RunIndex([]))
        rests = scope.select(GPU_STEP, alone, [scenario])[scenario]
        assert isinstance(rests, tuple)
        assert {run.run_id for run in rests} == {run.run_id for run in measured}
