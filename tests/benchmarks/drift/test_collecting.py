"""What a collection plans, and how it goes on."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.drift import collecting
from benchmarks.drift.collecting import missing, need_of, plan, tuned
from benchmarks.drift.injecting import SIZES, Injection
from benchmarks.drift.landed import injected, probed, quiet
from tests.benchmarks.drift.landings import collected
from warehouse.records import BadInput


def test_a_plan_has_all_in_an_order_by_chance() -> None:
    planned = plan(30, 4, seed=1)
    counts = Counter(planned)
    assert counts[None] == 30
    assert set(counts.values()) == {30, 4}
    assert len(counts) == 1 + 3 * len(SIZES)
    assert planned == plan(30, 4, seed=1) != plan(30, 4, seed=2)


@given(st.data())
def test_what_has_landed_is_not_measured_again(data: st.DataObject) -> None:
    planned = plan(5, 2, seed=0)
    done = data.draw(st.lists(st.sampled_from(planned), max_size=len(planned)))
    left = missing(planned, done)
    wanted = Counter(planned)
    assert Counter(left) == wanted - Counter(done)
    assert missing(planned, planned) == []


def test_landed_probes_are_told_apart(tmp_path: Path) -> None:
    order = [None, Injection("links", 0.1), None, Injection("memory", 0.2, rate_Bps=1e8)]
    probes = probed(collected(tmp_path, order, noise=0.01))
    assert [one.injection for one in probes] == order
    assert [one.run_id for one in quiet(probes)] == ["probe-000", "probe-002"]
    assert list(injected(probes)) == [order[1], order[3]]


def test_memory_is_slowed_by_what_earlier_runs_cost(tmp_path: Path) -> None:
    """Half of the speed by 1e8 bytes a second: a marked byte costs a second of 1e8 / share."""
    need = need_of("emu.avx2.s15")
    wanted = Injection("memory", 0.2)
    assert tuned(None, need, []) is None
    assert tuned(Injection("links", 0.2), need, []) == Injection("links", 0.2)
    first = tuned(wanted, need, [])
    assert first is not None
    assert first.rate_Bps is not None
    half = [None, Injection("memory", 0.5, rate_Bps=1e8)]
    again = tuned(wanted, need, probed(collected(tmp_path, half, noise=0.0)))
    assert again is not None
    assert again.rate_Bps == pytest.approx(0.25 * 1e8)


def test_a_folder_of_another_type_is_refused(tmp_path: Path) -> None:
    collected(tmp_path, [None], noise=0.0)
    with pytest.raises(BadInput, match=r"one node type, found emu\.avx2\.s15, emu\.sse41\.s15"):
        collecting.collect("emu.sse41.s15", tmp_path, quiet_probes=2, each=0)


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown node type"):
        collecting.collect("emu.avx2.s16", tmp_path, quiet_probes=1, each=0)
