"""A step of several GPUs: by hand where buckets are few, and at its limits."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from models.gpu_step.collectives import TIMED, Collectives, Topology, fit
from models.gpu_step.data_parallel import (
    BUCKET_BYTES,
    FIRST_BUCKET_BYTES,
    Exchange,
    Passes,
    buckets,
    distributed_s,
    sharded_s,
)

NONE = 0.0
USUAL = fit(pl.DataFrame(schema=TIMED))
ALONE = Topology(1, 1, 300e9, 50e9)


class Constant(Collectives):
    """All-reduces that take a second each, and others that take half, whatever they move."""

    def seconds(self, *asked: object) -> object:  # type: ignore[override]
        collective, sizes_bytes, _ = asked
        each_s = 1.0 if collective == "all_reduce" else 0.5
        return np.full(len(sizes_bytes), each_s)  # type: ignore[arg-type]


CONSTANT = Constant(USUAL.within, USUAL.across)


def exchange(*sizes_bytes: float, topology: Topology | None = None) -> Exchange:
    return Exchange(sizes_bytes, CONSTANT, topology or Topology(2, 1, 300e9, 50e9))


def test_buckets_fill_from_the_last_parameter_on() -> None:
    sizes = (10.0, float(BUCKET_BYTES), 5.0, float(FIRST_BUCKET_BYTES))
    assert buckets(sizes) == [(0.25, FIRST_BUCKET_BYTES), (0.75, BUCKET_BYTES + 5.0), (1.0, 10.0)]


def test_reductions_run_beside_backward_and_the_optimizer_waits() -> None:
    # Forward 4 s, backward 8 s; two buckets are full after half and all of backward.
    passes = Passes(12.0, 0.5)
    two = exchange(1.0, float(FIRST_BUCKET_BYTES))
    assert distributed_s(passes, two, NONE) == pytest.approx(4 + 8 + 1 + 0.5)
    # Passes that last less than reductions wait for them: 1 s, then two reductions in a row.
    short = Passes(0.0, 0.5)
    assert distributed_s(short, two, NONE) == pytest.approx(2.5)


def test_passes_are_slower_with_every_doubling() -> None:
    two = exchange(1.0, float(FIRST_BUCKET_BYTES))
    passes = Passes(12.0, 0.0)
    straggling = distributed_s(passes, two, 0.1)
    assert straggling == pytest.approx(1.1 * 12 + 1)


@pytest.mark.parametrize("links", [(2, 1, 16e9, 50e9), (1, 2, 300e9, 1e9)])
def test_reductions_through_hosts_take_longer_beside_passes(
    links: tuple[int, int, float, float],
) -> None:
    """A second takes 2.3 beside passes: over PCIe within a node, over sockets between nodes."""
    two = exchange(1.0, float(FIRST_BUCKET_BYTES), topology=Topology(*links))
    # Full after 4 + 4 s: done before the passes are; the other is after them.
    assert distributed_s(Passes(12.0, 0.5), two, NONE) == pytest.approx(12 + 1 + 0.5)
    # Full half a second before the passes end, in which 1 / 4.6 of it is done.
    begun = distributed_s(Passes(1.5, 0.0), two, NONE)
    assert begun == pytest.approx(1.5 + (1 - 0.5 / 2.3) + 1)


def test_frozen_parameters_are_gathered_and_never_scattered() -> None:
    # Two units, half a second each: four gathers, and the one scatter of what is trained.
    adapters = Exchange((1.0,), CONSTANT, Topology(2, 1, 300e9, 50e9), frozen_bytes=(9.0, 9.0))
    assert (adapters.gathers_s, adapters.scatters_s) == ([0.5, 0.5], [0.0, 0.5])
    assert sharded_s(Passes(0.0, 0.0), adapters, NONE) == pytest.approx(2 + 0.5)
    whole = exchange(1.0, 9.0)
    assert whole.gathers_s == whole.scatters_s
    assert sharded_s(Passes(0.0, 0.0), whole, NONE) == pytest.approx(2 + 1)


def test_only_the_last_pass_of_an_accumulation_exchanges() -> None:
    two = exchange(1.0, float(FIRST_BUCKET_BYTES))
    once = distributed_s(Passes(12.0, 0.5), two, NONE)
    assert distributed_s(Passes(12.0, 0.5, 3), two, NONE) == pytest.approx(once + 24)
    # Divided gradients are scattered in each (ZeRO-2), and parameters gathered once.
    scattered = replace(two, scatters=True, scatters_passes=True)
    assert distributed_s(Passes(0.0, 0.0, 3), scattered, NONE) == pytest.approx(3 * 1 + 1)
    # A sharded network gathers and scatters in each.
    sharded = sharded_s(Passes(0.0, 0.0, 3), exchange(1.0), NONE)
    assert sharded == pytest.approx(3 * sharded_s(Passes(0.0, 0.0), exchange(1.0), NONE))


@pytest.mark.parametrize("passes_s", [0.0, 1.0, 2.1, 9.0])
def test_passes_that_are_alike_are_not_gone_through_one_by_one(
    passes_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = exchange(*map(float, range(1, 7)))
    passes, busy = Passes(passes_s, 1.0, 200), 0.02
    quick_s = sharded_s(passes, units, busy)
    monkeypatch.setattr("models.gpu_step.data_parallel._ALIKE", -1.0)
    assert quick_s == pytest.approx(sharded_s(passes, units, busy), rel=1e-9)


@pytest.mark.parametrize("step", [distributed_s, sharded_s])
def test_one_gpu_is_as_fast_as_alone(step: "type[object]") -> None:
    alone = Exchange((4e8,) * 10, USUAL, ALONE)
    passes = Passes(0.3, 0.02, 2)
    assert step(passes, alone, 0.02) == pytest.approx(passes.step_s)  # type: ignore[call-arg]


def test_a_sharded_unit_is_gathered_twice_and_scattered_once() -> None:
    # One unit, no work: gather (half a second), gather again for backward, scatter.
    assert sharded_s(Passes(0.0, 0.0), exchange(1.0), NONE) == pytest.approx(1.5)
    # Two units of much work: only the first gather and the last scatter are not beside it.
    two = exchange(1.0, 1.0)
    assert sharded_s(Passes(60.0, 0.0), two, NONE) == pytest.approx(0.5 + 60 + 0.5)


def test_the_optimizer_of_a_sharded_network_has_a_part_of_it() -> None:
    four = exchange(1.0, topology=Topology(4, 1, 300e9, 50e9))
    without = sharded_s(Passes(0.0, 0.0), four, NONE)
    assert sharded_s(Passes(0.0, 1.0), four, NONE) == pytest.approx(without + 0.25)
