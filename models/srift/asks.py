"""What predictors of DistributedDataParallel's iterations rest on."""

from warehouse.asks import Ask, Refusal
from warehouse.records import Scenario


def foreign(scenario: Scenario) -> Refusal | None:
    """Refuse other training than PyTorch's with all-reduces."""
    kind, framework = scenario.strategy.kind, scenario.workload.framework
    if (kind, framework) == ("all_reduce", "pytorch"):
        return None
    reason = f"it is about all-reduces of pytorch, not {kind} of {framework}"
    return Refusal(reason, foreign=True)


def passes(scenario: Scenario, probe: str = "torch_compute") -> tuple[Ask, ...]:
    """Return asks for the passes of the network on one node of each type, without any link."""
    changes = {
        "strategy": scenario.strategy.model_copy(update={"workers": 1}),
        "link_mbps": None,
    }
    return tuple(
        Ask(
            probe,
            "own",
            scenario.model_copy(update={**changes, "nodes": (group.one,)}),
            any_batch=True,
        )
        for group in scenario.worker_groups
    )
