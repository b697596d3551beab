"""The chain's operations end after 0.7 s; its worker parses 50 ms and computes 307 ms of them."""

from statistics import fmean

import pytest

from models.async_sgd.graph import Resource
from models.async_sgd.profiles import tracer_excess_s, untraced_s, without_tracer
from models.async_sgd.trace import Profile
from tests.models.async_sgd.frames import (
    CHAIN_STEP,
    COMPUTE,
    Tables,
    chain,
    profile,
    tables,
)

WORK_S = 0.357


def worker_work_s(made: Profile) -> list[float]:
    resources = made.graph.resources
    return [
        sum(s for s, r in zip(step.seconds, resources, strict=True) if r is Resource.WORKER)
        for step in made.steps
    ]


def unequal() -> Tables:
    """Return two steps whose worker computes 307 and 407 ms, and nothing after it."""
    longer = {**CHAIN_STEP, COMPUTE: (260_000, 400_000)}
    steps = [{i: step[i] for i in (0, 2, COMPUTE)} for step in (CHAIN_STEP, longer)]
    resources = [("ps", None), ("ps", None), ("downlink", 20_000), ("worker", None)]
    return tables([*resources, ("worker", None)], [(i, i + 1) for i in range(4)], steps)


def test_what_tracing_adds() -> None:
    """Until the last operation, at 700 ms: what the client does after that is not the tracer's."""
    made = chain(untraced_us=[640_000, 660_000])
    assert tracer_excess_s(made.timings, made.steps) == pytest.approx(0.05)


@pytest.mark.parametrize("untraced_us", [[], [700_000], [780_000, 790_000]])
def test_nothing_is_added_that_cannot_be_seen(untraced_us: list[int]) -> None:
    made = chain(untraced_us=untraced_us)
    assert tracer_excess_s(made.timings, made.steps) == 0.0


def test_untraced_steps_tell_how_long_operations_take() -> None:
    made = chain(untraced_us=[640_000, 660_000])
    assert untraced_s(made.timings, made.steps) == pytest.approx(0.65)
    made = chain(untraced_us=[780_000])
    assert untraced_s(made.timings, made.steps) == pytest.approx(0.7)
    made = chain(untraced_us=[])
    assert untraced_s(made.timings, made.steps) is None


def all_work_s(made: Profile) -> float:
    """Return the mean work of the worker, as if nothing overlapped and nothing else took time."""
    return fmean(worker_work_s(made))


def test_every_computation_loses_the_same_part() -> None:
    """Of 357 and 457 ms of work 40 ms go on average: every computation loses 40 / 407 of it."""
    made = profile(unequal())
    assert worker_work_s(made) == pytest.approx([0.357, 0.457])
    less = worker_work_s(without_tracer(made, 0.367, all_work_s))
    assert less == pytest.approx([0.357 * 367 / 407, 0.457 * 367 / 407], rel=1e-4)


def test_a_step_that_does_not_shrink_with_its_work_loses_more_of_it() -> None:
    """Half of the work is hidden behind a transfer: twice as much of it has to go."""
    made = profile(chain())
    less = without_tracer(made, WORK_S * 0.9, lambda one: WORK_S / 2 + all_work_s(one) / 2)
    assert all_work_s(less) == pytest.approx(WORK_S * 0.8, rel=1e-3)


def test_parsing_at_the_worker_shrinks_with_the_rest() -> None:
    made = without_tracer(profile(chain()), WORK_S * 0.9, all_work_s)
    parsing = made.graph.names.index("downlink2/parsing")
    assert made.steps[0].seconds[parsing] == pytest.approx(0.045, rel=1e-3)


@pytest.mark.parametrize(("part", "kept"), [(0.1, 0.5), (0.5, 0.5), (9.0, 1.5)])
def test_no_more_than_half_of_the_work_goes_or_comes(part: float, kept: float) -> None:
    made = without_tracer(profile(chain()), WORK_S * part, all_work_s)
    assert worker_work_s(made) == pytest.approx([WORK_S * kept] * 3)


def test_servers_transfers_and_the_order_of_things_stay() -> None:
    before = profile(chain())
    after = without_tracer(before, WORK_S - 0.1, all_work_s)
    assert (after.graph, after.requested) == (before.graph, before.requested)
    for old, new in zip(before.steps, after.steps, strict=True):
        assert (new.order, new.release_s) == (old.order, old.release_s)
        for i, resource in enumerate(before.graph.resources):
            assert (new.seconds[i] == old.seconds[i]) == (
                resource is not Resource.WORKER or old.seconds[i] == 0
            )


def test_a_worker_without_work_loses_none() -> None:
    made = profile(tables([("ps", None)], [], [{0: (0, 100)}]))
    assert without_tracer(made, 0.1, lambda _: 0.2) == made
