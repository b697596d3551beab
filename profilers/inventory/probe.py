"""Probe `inventory`: what a node of a type can do, within its share.

Floating-point operations a second in convolutions of all channels, of single pixels and of single
channels, bytes a second through memory and to disk, cores and memory: features of clusters
(PredictDDL, section III-C). Earlier runs have no convolutions of single pixels.
And how long its host takes to issue an operator of a training step, by kind (Ceer, section III, has
medians of operations on processors): small networks of several kinds of layers are trained, whose
steps take as long as that. Earlier runs have none of it.
Kinds of work take turns, so that a slow moment of the host hits all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from profilers.nodes.programs import Message, NodeProgram
from profilers.probe import Measured, PlannedRun, Probe, RequestedScenarios, Session, one_by_one
from profilers.steady.host import Patience
from profilers.tables import SampleRow, issue_rows, sample_table
from warehouse.fields import Repeats, Seconds
from warehouse.records import Record
from warehouse.requirements import Subject

METRICS = {
    "dense": ("inventory_dense_flops", "FLOP/s"),
    "pointwise": ("inventory_pointwise_flops", "FLOP/s"),
    "depthwise": ("inventory_depthwise_flops", "FLOP/s"),
    "memory": ("inventory_memory_Bps", "B/s"),
    "disk": ("inventory_disk_Bps", "B/s"),
}
"""Name and unit of what each kind of work is counted in."""
ISSUE_KINDS = ("step", "parameter", "view", "elementwise", "product", "normalization")
"""What a host issues: what a step and each parameter cost once, then operators of a kind."""
PATIENCE_S = 20.0
_TIMEOUT_S = 120.0


def issue_times(networks: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """Return the seconds of each of `ISSUE_KINDS` that steps of networks took; none is negative.

    Args:
        networks: of each, `kinds` (how many of each kind a step has) and `wall_s` of a step.
    """
    import numpy as np
    from scipy.optimize import nnls

    counts = np.array(
        [
            [network["kinds"].get(kind, kind == "step") for kind in ISSUE_KINDS]
            for network in networks
        ],
        float,
    )
    walls_s = np.array([network["wall_s"] for network in networks])
    kinds_s, _ = nnls(counts / walls_s[:, None], np.ones(len(networks)))
    return dict(zip(ISSUE_KINDS, kinds_s.tolist(), strict=True))


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Time each kind of work in turns; cores and memory of the node once."""
    settings, cluster = Settings(**need.settings), session.cluster
    node = cluster.of_role("worker")[0]
    group, kind = node.group, node.group.node_type
    patience = Patience(cluster.cpu_times, PATIENCE_S)
    rows: list[SampleRow] = []
    program = "profilers.inventory.program"
    with NodeProgram(cluster, node, f"inventory of {kind}", program) as job:

        def ask(event: str, **command: object) -> Message:
            timeout_s = _TIMEOUT_S + 20 * settings.seconds
            return job.answer(event, timeout_s, seconds=settings.seconds, **command)

        for turn in range(settings.turns):
            session.say(f"probe inventory: {kind}, turn {turn + 1} of {settings.turns}")
            for work, (metric, unit) in METRICS.items():
                done = patience.measure_undisturbed(partial(ask, "done", do="do", kind=work)).value
                rows.append((metric, unit, turn, done["amount"] / done["wall_s"]))
            issued = patience.measure_undisturbed(partial(ask, "issued", do="issue")).value
            rows += issue_rows(issue_times(issued["networks"]), turn)
        memory_bytes = group.memory_bytes or job.ready["memory_bytes"]
        rows += [
            ("inventory_cores", "1", None, float(group.cpu_share or job.ready["cores"])),
            ("inventory_memory_bytes", "B", None, float(memory_bytes)),
            ("inventory_gpus", "1", None, float(len(job.ready["devices"]))),
        ]
    config = {**need.subject.config, "turns": settings.turns}
    return Measured({"sample": sample_table(rows)}, config)


class Settings(Record):
    """How often each kind of work is timed, and for how many seconds."""

    turns: Repeats = 5
    seconds: Seconds = 1.0


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each type of workers once."""
    groups = {
        group.node_type: group for scenario in requested.cluster for group in scenario.worker_groups
    }
    for node_type, group in groups.items():
        yield PlannedRun(
            Subject("inventory", None, None, {"worker": node_type}),
            "profile",
            f"probe inventory, {node_type}",
            (group.bare,),
            settings.model_dump(),
            expected_s=settings.turns * (1.5 * settings.seconds) * (len(METRICS) + 1),
        )


PROBE = Probe(
    name="inventory",
    what="What a node's share of it can do: convolutions, memory, disk.",
    kind="pytorch",
    tables=("sample",),
    settings=Settings,
    needs=_needs,
    run=one_by_one(_measure),
)
