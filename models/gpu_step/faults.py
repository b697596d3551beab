"""What a fault of one part does to a step of all: every GPU waits for the slowest.

A GPU with a part of its speed makes passes of all, or of its stage, as much longer; a link with a
part of its bandwidth is the slowest of each ring. Where a node is lost halfway, the others train
the batches of all from then on.
"""

from dataclasses import dataclass, replace
from typing import Self

from models.gpu_step.collectives import Topology
from models.gpu_step.layout import Layout
from models.gpu_step.parallel_steps import AloneStep
from models.system import NotCovered


@dataclass(frozen=True)
class Fault:
    """Parts of speed that are left, and whether a node is lost."""

    gpu_speed: float = 1.0
    link_speed: float = 1.0
    is_lost: bool = False

    @classmethod
    def of(cls, what_if: str | None) -> Self:
        """Return the fault of words such as slow-gpu=0.8; None: there is none."""
        name, _, part = (what_if or "").partition("=")
        speed = float(part or 1.0)
        return cls(
            speed if name == "slow-gpu" else 1.0,
            speed if name == "slow-link" else 1.0,
            name == "lost-node",
        )

    def links(self, links: Topology) -> Topology:
        """Return links of which one is slower: of a node's network, where there are several."""
        name = "network_bps" if links.nodes > 1 else "link_bps"
        return replace(links, **{name: getattr(links, name) * self.link_speed})

    def slowed(self, alone: AloneStep) -> AloneStep:
        """Return the step of the slower GPU alone: passes and optimizer are longer alike."""
        step = alone.step
        beside = max(step.step_us - max(step.gpu_us, step.host_us), 0.0)
        slowed_us = max(step.host_us, step.gpu_us / self.gpu_speed) + beside
        longer_us = max(slowed_us - step.step_us, 0.0)
        if not longer_us:
            return alone
        gpu_us = step.gpu_us + longer_us
        return replace(
            alone,
            step=replace(step, step_us=slowed_us, gpu_us=gpu_us),
            optimizer_us=alone.optimizer_us * gpu_us / step.gpu_us,
            optimizer_s=alone.optimizer_s * slowed_us / step.step_us,
        )


def without_node(layout: Layout, links: Topology) -> tuple[Layout, Topology]:
    """Return the layout of the nodes that are left, and their links.

    Raises:
        NotCovered: no whole replica is left.
    """
    ranks = layout.tensor * layout.stages
    replicas = (links.nodes - 1) * links.devices // ranks
    if not replicas:
        raise NotCovered(
            f"lost-node: {links.nodes - 1} nodes hold no {ranks} GPUs of a replica; give more nodes"
        )
    shards = replicas if layout.shards == layout.replicas else min(layout.shards, replicas)
    left = replace(layout, replicas=replicas, shards=shards)
    return left, replace(links, nodes=links.nodes - 1)
