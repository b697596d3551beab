"""How much longer steps of one node take in training than in its profile. Not in the paper."""

from collections.abc import Iterable, Sequence
from statistics import geometric_mean

from models.predictddl.observed import Observed
from models.srift.parameters import ProfiledNetwork


def pace(trained: Iterable[Observed], networks: Sequence[ProfiledNetwork]) -> float:
    """Return the geometric mean of measured steps over what profiles say of the same batch.

    A single node exchanges nothing and waits for nobody, so that the rest is in how it computes: a
    profile times batch sizes in turns and rests between a step's passes and its update, training
    does neither.

    Args:
        trained: mean steps of scenarios, s; those of several nodes or devices, or of networks and
            node types without a profile, do not count.
        networks: the profiles.

    Returns: 1 where no step counts.
    """
    known = {
        (one.dnn, one.image_size, node_type): node.latency
        for one in networks
        for node_type, node in one.nodes.items()
    }
    ratios = []
    for one in trained:
        load, strategy = one.scenario.workload, one.scenario.strategy
        (group, *others) = one.scenario.worker_groups
        latency = known.get((load.dnn, load.image_size, group.node_type))
        if latency is None or others or strategy.workers * strategy.devices_per_node > 1:
            continue
        ratios.append(one.step_s / float(latency.alone_s(group.batch_size or load.batch_size)))
    return geometric_mean(ratios) if ratios else 1.0
