"""How GPUs divide a network for a job: all layouts of so many nodes, the fastest that have room.

Passes are forecast once for each number of tensor ranks and stages; memory, bubbles and exchanges
follow in closed form (`models.gpu_step.layout`). What is proposed is forecast like anything else.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from forecasting.decisions.question import MICRO_BATCHES, JobQuestion, ProfileFacts, node_counts
from models.gpu_step.layout import Layout
from models.gpu_step.scenario_steps import StepForecaster
from models.system import NotCovered
from studies.curve import Curve
from warehouse.records import Backend, Scenario, Strategy

KEPT = "-kept"
"""Behind the name of a network whose activations are kept, where they might be computed again."""
_BEST = 2
"""Layouts of so many nodes that are proposed."""
_MOST_STAGES = 64
_PASSES = 2
"""That are forecast; those of a step are as many times as long."""


def layout_curves(
    steps: StepForecaster,
    question: JobQuestion,
    known: ProfileFacts,
    capacity: Mapping[str, int],
    backend: Backend,
) -> list[Curve]:
    """Return the fastest layouts of each number of nodes of each type.

    Args:
        steps: of a fit.
        question: the job, with a global batch.
        known: what profiles add to it.
        capacity: nodes of each type.
        backend: that scenarios are of.
    """
    curves = []
    for node_type, most in capacity.items():
        parts: dict[tuple[object, ...], Scenario] = {}
        common = {
            **question.recipe,
            "framework": "pytorch",
            "image_size": known.image_size,
            "link_mbps": question.link_mbps,
            "what_if": question.what_if,
            "worker": node_type,
            "devices_per_node": question.devices_of(node_type),
        }

        def part(fields: Mapping[str, Any], common: Mapping[str, Any] = common) -> Scenario:
            """Return the fewest nodes that are divided alike."""
            ranks = fields["tensor_parallel"] * fields["pipeline_parallel"]
            of_pass = {"accumulate": _PASSES, "workers": -(-ranks // common["devices_per_node"])}
            curve = {**common, **fields, **of_pass, "virtual_stages": 1, "strategy": "zero1"}
            return Curve.model_validate(curve).scenarios(backend)[0]

        for nodes in node_counts(most):
            found: list[tuple[float, dict[str, Any]]] = []
            for fields in _choices(question, nodes, common["devices_per_node"]):
                key = tuple(fields[name] for name in _OF_PASSES)
                layout_fields = {name: fields[name] for name in _OF_LAYOUT}
                strategy = Strategy(
                    kind=fields["strategy"],
                    workers=nodes,
                    devices_per_node=common["devices_per_node"],
                    **layout_fields,
                )
                layout = Layout.of(strategy, fields["accumulate"])
                for dnn in (f"{question.dnn}{KEPT}", question.dnn):
                    fields = {**fields, "dnn": dnn}
                    try:
                        if (dnn, *key) not in parts:
                            parts[dnn, *key] = part(fields)
                        step_s = steps.roughly_s(parts[dnn, *key], layout, nodes)
                    except NotCovered:
                        continue
                    if step_s is not None:
                        found.append((step_s, {**common, **fields, "workers": nodes}))
                        break
            found.sort(key=lambda each: each[0])
            curves += [Curve.model_validate(fields) for _, fields in found[:_BEST]]
    return curves


_OF_LAYOUT = ("tensor_parallel", "pipeline_parallel", "virtual_stages")
_OF_PASSES = ("tensor_parallel", "pipeline_parallel", "batch_size")


def _choices(question: JobQuestion, nodes: int, each: int) -> Iterator[dict[str, Any]]:
    """Yield fields of curves: powers of two, whose replicas divide the global batch.

    A pipeline has at least as many micro batches as stages, and divides the state alone.
    """
    powers = [1 << place for place in range(_MOST_STAGES.bit_length())]
    for tensor, stages, micro_batch in product(powers, powers, MICRO_BATCHES):
        replicas, left = divmod(nodes * each, tensor * stages)
        batches, rest = divmod(question.global_batch or 0, micro_batch * max(replicas, 1))
        if each % tensor or left or rest or batches < stages or not replicas:
            continue
        kinds = ("zero1", "sharded", "hsdp")[: 1 if stages > 1 else 3 if nodes > 1 else 2]
        for kind, virtual_stages in product(kinds, (1, 2) if stages > 1 else (1,)):
            yield {
                "strategy": kind,
                "tensor_parallel": tensor,
                "pipeline_parallel": stages,
                "virtual_stages": virtual_stages,
                "batch_size": micro_batch,
                "accumulate": batches,
            }
