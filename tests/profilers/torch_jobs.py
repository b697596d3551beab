"""Scenarios of PyTorch that the probes' tests train."""

from collections.abc import Mapping

from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload


def scenario(
    group: NodeGroup, *, image_size: int = 16, batch_size: int = 1, **workload: object
) -> Scenario:
    """All nodes of the group train together, small_cnn unless told otherwise."""
    fields = {"dnn": "small_cnn", "framework": "pytorch", **workload}
    sizes = {"image_size": image_size, "batch_size": batch_size}
    return Scenario(
        workload=TrainingWorkload.model_validate({**fields, **sizes}),
        strategy=Strategy(kind="all_reduce", workers=group.count),
        nodes=(group,),
        link_mbps=100,
    )


RECIPE: Mapping[str, object] = {
    "precision": "bfloat16",
    "optimizer": "adamw",
    "accumulate": 2,
    "memory_format": "channels_last",
}
"""Of everything something else than by default, as far as processors can."""


def single(group: NodeGroup, **workload: object) -> Scenario:
    """Return what one node of the group trains alone, by `RECIPE` unless told otherwise."""
    replica = scenario(group.one, image_size=16, batch_size=2, **(dict(RECIPE) | workload))
    return replica.model_copy(
        update={"strategy": Strategy(kind="single", workers=1), "link_mbps": None}
    )
