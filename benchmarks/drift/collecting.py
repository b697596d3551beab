"""Real probes of one node type, quiet ones among some that are made slower, in an order by chance.

What has landed is not measured again, so a collection that was ended goes on.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import exp
from pathlib import Path
from statistics import median

from benchmarks.drift.injecting import (
    SIZES,
    Injection,
    What,
    cluster_for,
    memory_rate_Bps,
    share_of,
)
from benchmarks.drift.landed import Probed, of_one_type, probed, quiet
from profilers import watch
from profilers.clusters.node_types import node_group, node_types
from profilers.nodes.watch_job import BATCH_SIZE, DNN, IMAGE_SIZE
from profilers.probe import Asked, Need, results
from profilers.result import RunContext
from profilers.steady.hostlock import host_lock
from studies.settings import noted
from warehouse.durable import remove, temporary
from warehouse.landing import land
from warehouse.records import ProbeFailed, Scenario, Strategy, Workload

STUDY = "drift"
KINDS: tuple[What, ...] = ("links", "cpu_share", "memory")
_MOST_FAILURES = 3
"""Failed probes in a row after which something else is wrong."""

Planned = Injection | None
"""What is made slower in a probe; None: nothing."""


def collect(
    node_type: str,
    landing: Path,
    *,
    quiet_probes: int,
    each: int,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run what a folder lacks of so many quiet probes and `each` of every kind and size.

    Raises:
        BadInput: no such node type, the folder has probes of another one, or this one's nodes
            cannot be made slower.
        ProbeFailed: several probes in a row failed; their runs have landed.
    """
    need = need_of(node_type)
    done = probed(landing)
    if done:
        of_one_type([*done, replace(done[0], node_type=node_type)], landing)
    left = missing(plan(quiet_probes, each, seed), [one.injection for one in done])
    started_s, failures = time.monotonic(), 0
    for place, planned in enumerate(left, start=1):
        took_s = (time.monotonic() - started_s) / (place - 1) if place > 1 else _expected_s(need)
        minutes = (len(left) - place + 1) * took_s / 60
        say(f"{place} of {len(left)}: {in_words(planned)}; about {minutes:.0f} min left")
        error = _probe(need, tuned(planned, need, probed(landing)), landing, say)
        failures = failures + 1 if error else 0
        if error:
            say(f"failed, and will be run again: {error}")
        if failures == _MOST_FAILURES:
            raise ProbeFailed(f"{failures} probes in a row failed, the last one so: {error}")


def need_of(node_type: str) -> Need:
    """Return the probe of a node type, on links of its own speed.

    Raises:
        BadInput: there is no such type.
    """
    nodes = (node_group("worker", node_type, 2),)
    scenario = Scenario(
        workload=Workload(
            dnn=DNN,
            framework="pytorch",
            image_size=IMAGE_SIZE,
            batch_size=BATCH_SIZE,
        ),
        strategy=Strategy(kind="all_reduce", workers=2),
        nodes=nodes,
        link_mbps=node_types()[node_type].bandwidth_mbps,
    )
    (need,) = watch.PROBE.needs(Asked(cluster=(scenario,)), watch.Settings())
    return need


def plan(quiet_probes: int, each: int, seed: int) -> list[Planned]:
    """Return all probes, in an order by chance: time of day is then nothing that differs."""
    slower: list[Planned] = [Injection(what, by) for what, by in product(KINDS, SIZES)]
    order = [None] * quiet_probes + slower * each
    random.Random(seed).shuffle(order)
    return order


def missing(planned: Sequence[Planned], done: Iterable[Planned]) -> list[Planned]:
    """Return what is left of a plan when so much has landed, in its order."""
    landed, left = Counter(done), []
    for one in planned:
        if landed[one] > 0:
            landed[one] -= 1
        else:
            left.append(one)
    return left


def tuned(planned: Planned, need: Need, done: Sequence[Probed]) -> Planned:
    """Return what is made slower, memory so that copies were as slow as asked before.

    Before there is a quiet probe to compare with, by a first guess.
    """
    if planned is None or planned.what != "memory":
        return planned
    speeds = [speed for one in quiet(done) if (speed := relative_memory(one)) is not None]
    pairs = [
        (rate_Bps, 1 - speed / median(speeds))
        for one in done
        if speeds
        and one.injection is not None
        and (rate_Bps := one.injection.rate_Bps) is not None
        and (speed := relative_memory(one)) is not None
    ]
    return replace(planned, rate_Bps=memory_rate_Bps(planned.by, share_of(need.nodes), pairs))


def relative_memory(probe: Probed) -> float | None:
    """Return how fast a probe copied, as part of what the host's memory did beside it.

    None: probes that landed before there were bursts beside nodes do not know.
    """
    if not probe.knows_memory:
        return None
    memory = probe.reading(watch.MEMORY)
    return exp(memory["host"] - memory["slowness"])


def in_words(planned: Planned) -> str:
    """Return what progress and tables call it."""
    return "quiet" if planned is None else f"{planned.what} slower by {planned.by:.0%}"


def _probe(need: Need, planned: Planned, landing: Path, say: Callable[[str], None]) -> str | None:
    """Run and land one probe; return why it failed, None if it did not."""
    landing.mkdir(parents=True, exist_ok=True)
    scratch = temporary(landing)
    scratch.mkdir()
    try:
        context = RunContext(STUDY, 1, "profile", scratch)
        with host_lock(say), cluster_for(need, planned) as cluster:
            ((_, result),) = results(watch.PROBE, cluster, [need], context, lambda _: None)
        run = noted(result.run, need.settings)
        if planned is not None:
            run = planned.label(run, need.subject.link_mbps)
        land(landing, run, result.scenario, result.tables, result.artefacts)
        return run.error
    finally:
        remove(scratch)


def _expected_s(need: Need) -> float:
    return need.expected_s + need.start_s
