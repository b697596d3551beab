"""Runs of made-up networks of five families on two node types; steps are a closed form."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
import polars as pl

from models.predictddl.ghn import Embedder
from models.predictddl.observations import DENSE, DEPTHWISE, DISK, MEMORY, ObservedStep
from models.predictddl.training_set import Key, TrainingSet
from networks.primitives import Primitive, PrimitiveGraph
from tests.made_run import all_reduce, raw_table, worker_nodes
from warehouse.records import Scenario

SIDE = 32
NETWORKS = ("ant", "bee", "cow", "dog", "elk")
FAR = "zebra"
"""A network like none of the others: attention and embeddings alone."""
SPEED: Mapping[str, float] = {"fast": 1e10, "slow": 4e9}
MEASURED = {
    name: {DENSE: speed, DEPTHWISE: speed / 4, MEMORY: 1e9, DISK: 1e8}
    for name, speed in SPEED.items()
}
LINK_BPS = 62.5e6


def network(dnn: str, attention: int = 0) -> PrimitiveGraph:
    """Return a chain of convolutions, normalizations and sums: more of them, the later the name.

    As many primitives of attention follow as are asked for.
    """
    if dnn == FAR:
        kinds = ["input", *["embedding", "attention"] * 9]
        nodes = tuple(Primitive(kind, 10, 1e6, 10) for kind in kinds)
    else:
        order = ord(dnn[0]) - ord("a") + 1
        chance = np.random.default_rng(order)
        layers = [Primitive("input", output_elements=3 * SIDE**2)]
        for _ in range(3 + order):
            wide = int(chance.integers(8, 64))
            layers += [
                Primitive("conv", 9 * wide, 2e6 * wide, 20 * wide, 9),
                Primitive(str(chance.choice(["batch_norm", "bias"])), wide, 0, 20 * wide),
                Primitive(str(chance.choice(["sum", "max_pool"])), 0, 0, 20 * wide),
            ]
        layers += [Primitive("attention", 10, 1e6, 10)] * attention
        nodes = (*layers, Primitive("linear", 640 * order, 1280 * order, 10))
    edges = tuple((place, place + 1) for place in range(len(nodes) - 1))
    return PrimitiveGraph(dnn, SIDE, nodes, edges, sum(node.parameters for node in nodes))


def graphs(wanted: Iterable[Key]) -> Mapping[Key, PrimitiveGraph]:
    """Return made-up graphs, as `networks.extraction.primitive_graphs` does real ones."""
    return {key: network(key[0]) for key in wanted}


def scenario(dnn: str, workers: int, batch_size: int, node_type: str = "fast") -> Scenario:
    """Return training on nodes of one type."""
    load = {"dnn": dnn, "image_size": SIDE, "batch_size": batch_size}
    nodes = worker_nodes(node_type, workers, cpu_share=0.5, memory_bytes=2**30)
    return all_reduce(nodes, link_mbps=500, **load)


def step_s(scenario: Scenario) -> float:
    """Return thrice the operations at the node's speed, and what an exchange takes."""
    graph, workers = network(scenario.workload.dnn), scenario.strategy.workers
    speed = SPEED[scenario.worker_groups[0].node_type]
    exchange_s = 2 * (workers - 1) / workers * 4 * graph.parameter_count / LINK_BPS
    return 3 * scenario.workload.batch_size * graph.flops / speed + exchange_s


def scenarios(
    names: Sequence[str] = NETWORKS, workers: Sequence[int] = (1, 2, 4)
) -> list[Scenario]:
    """Return a grid of networks, workers, batches and types."""
    return [scenario(*cell) for cell in product(names, workers, (4, 12), SPEED)]


def known(
    names: Sequence[str] = NETWORKS,
    effects: Mapping[str, float] | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> TrainingSet:
    """Return runs whose logarithm has an effect of the network, and noise."""
    chance = np.random.default_rng(seed)
    runs = [
        ObservedStep(
            scenario,
            step_s(scenario)
            * float(
                np.exp((effects or {}).get(scenario.workload.dnn, 0) + noise * chance.normal())
            ),
        )
        for scenario in scenarios(names)
    ]
    return TrainingSet(runs, MEASURED, graphs, Embedder.untrained())


def raw_tables(made: Sequence[Scenario] | None = None) -> dict[str, pl.DataFrame]:
    """Return the runs as raw tables have them, and an inventory of each node type."""
    trained = scenarios() if made is None else made
    runs: list[tuple[str, str, str, str | None, str]] = [
        (f"step-{place}", "torch_throughput", "ok", scenario.scenario_id, "{}")
        for place, scenario in enumerate(trained)
    ]
    samples: list[tuple[str, str, int | None, float]] = [
        (f"step-{place}", "step_time_s", None, step_s(scenario))
        for place, scenario in enumerate(trained)
    ]
    for name, rates in MEASURED.items():
        runs.append((f"of-{name}", "inventory", "ok", None, json.dumps({"worker": name})))
        samples += [(f"of-{name}", metric, 0, value) for metric, value in rates.items()]
    known = [(scenario.scenario_id, scenario.canonical_json()) for scenario in trained]
    return {
        "run": raw_table("run", "run_id probe status scenario_id config", runs),
        "scenario": raw_table("scenario", "scenario_id canonical", known),
        "sample": raw_table("sample", "run_id metric window value", samples),
    }
