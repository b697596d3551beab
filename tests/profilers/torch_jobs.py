"""Scenarios of PyTorch that the probes' tests train."""

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
