"""The baseline of synchronous training: an iteration takes as long as on the slowest node alone."""

from models.inputs import out_of_scope_for_allreduce, pass_inputs
from models.profiled_run import PointForecaster, profiled_scenario
from models.srift import latency
from models.srift.latency import Latency
from models.system import System, Tables
from warehouse.records import BadInput, NodeGroup, Record, Scenario
from warehouse.requirements import Refusal, Requirement


class SingleNodePasses(Record):
    """How long passes of a network take on one node of a type.

    `training` is what tells it from a replica in float32 by plain SGD; empty: nothing does.
    """

    dnn: str
    image_size: int
    node_type: str
    latency: Latency
    training: str = ""


class IdealScaling(PointForecaster):
    """Linear scaling, of every profiled network and node type: exchanges take no time."""

    alone: tuple[SingleNodePasses, ...]

    def value(self, scenario: Scenario) -> float:
        """Return the seconds of a step, for which all nodes wait for the slowest."""
        return max(self._step_s(scenario, group) for group in scenario.nodes)

    def _step_s(self, scenario: Scenario, group: NodeGroup) -> float:
        load = scenario.workload
        wanted = load.dnn, load.image_size, group.node_type, _training(scenario)
        for passes in self.alone:
            if (passes.dnn, passes.image_size, passes.node_type, passes.training) == wanted:
                return float(passes.latency.alone_s(group.batch_size or load.batch_size))
        raise BadInput(
            f"{scenario.label}: {load.dnn} has no compute profile on {group.node_type}; list it in "
            "a study and `stepcast run STUDY.yaml`"
        )


def fit(tables: Tables) -> IdealScaling:
    """Fit to table compute of any number of profiles of one node.

    Raises:
        BadInput: a profile with fewer than two batch sizes.
    """
    alone = []
    for (run_id,), rows in tables["compute"].group_by("run_id", maintain_order=True):
        scenario = profiled_scenario(tables, str(run_id))
        alone.append(
            SingleNodePasses(
                dnn=scenario.workload.dnn,
                image_size=scenario.workload.image_size,
                node_type=scenario.nodes[0].node_type,
                latency=latency.fit(rows),
                training=_training(scenario),
            )
        )
    return IdealScaling(alone=tuple(alone))


def _training(scenario: Scenario) -> str:
    """Return what tells training from that of a replica in float32 by plain SGD, in words."""
    kind = scenario.strategy.kind if scenario.strategy.kind == "single" else ""
    return ", ".join(filter(None, (kind, scenario.workload.recipe)))


def _requires(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    """Rest on passes that were measured as they are asked about, whatever the recipe."""
    if (scenario.strategy.kind, scenario.workload.framework) == ("single", "pytorch"):
        return pass_inputs(scenario)
    return out_of_scope_for_allreduce(scenario) or pass_inputs(scenario)


IDEAL_SCALING = System(
    name="ideal_scaling",
    version="1",
    what="Baseline: an iteration takes as long as on the slowest node alone.",
    source="baseline",
    tables=("run", "scenario", "compute"),
    inputs=_requires,
    fit=fit,
    load=lambda text, _: IdealScaling.model_validate_json(text),
    pooled=True,
    in_words="linear scaling",
    any_recipe=True,
)
