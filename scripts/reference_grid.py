"""Writes studies/reference_grid.yaml: which networks and scenarios it has, by a rule and a seed.

The rule, before anything of it was measured:

1. A network of `networks.library` takes part if its step is expected to take 4 s at most with 8
   nodes and 12 images each (floating-point operations of its graph at a usual speed, parameters at
   the speed of the links), and to fit into the memory of the smallest node type.
2. Families that have two such networks or more are shuffled; the first eight are trained on, with
   two networks each, drawn by chance. Of all other families the next eight are tested, with one.
3. Train: of the 16 setups of W = 1, 2, 4, 8 × batch 4, 12 × two node types each network has five,
   so that each setup is there five times.
4. Test: two setups of each trained network that no train run has (W = 3 or 6, batch 8, mixes), five
   of each other network, two of four networks on a third node type.
5. Reserve: 24 setups of either kind that are neither trained on nor tested.

Run it with `python scripts/reference_grid.py`; the file is committed, and a test compares.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, product
from pathlib import Path
from random import Random
from typing import NamedTuple

from networks.extraction import primitive_graphs
from networks.library import LIBRARY
from networks.primitives import PrimitiveGraph

SEED = 32
SIDE, LINK_MBPS = 64, 500
TYPES, THIRD = ("emu.avx512.s15", "emu.avx2.s15"), "emu.sse41.s15"
MOST_S, MOST_PARAMETERS, MOST_ELEMENTS = 4.0, 14e6, 6e6
FILE = Path(__file__).parents[1] / "studies" / "reference_grid.yaml"
_FLOPS, _ELEMENTS_PER_S, _DEPTHWISE_FLOPS = 4e9, 1.5e8, 5e8
"""Usual speeds of the slower of two node types, a step's three passes included below."""
_SYSTEMS = (
    *("srift", "ideal_scaling", "ceer_pytorch", "ceer_pytorch_paper"),
    *("predictddl", "predictddl_paper", "predictddl_untrained", "predictddl_histogram"),
    *("log_linear", "black_box", "gray_box", "ernest", "ernest_pooled"),
)


class Point(NamedTuple):
    """A scenario: of a network, images of each node, the node type or mix, and workers."""

    dnn: str
    batch_size: int
    worker: str
    workers: int
    mix: str = ""


def expected_step_s(graph: PrimitiveGraph, batch_size: int = 12, workers: int = 8) -> float:
    """Return about what a step takes on the slower of both node types."""
    by_type = {"dense": 0.0, "depthwise_conv": 0.0}
    for node in graph.nodes:
        by_type["depthwise_conv" if node.type == "depthwise_conv" else "dense"] += node.flops
    passes_s = 3 * (
        by_type["dense"] / _FLOPS
        + by_type["depthwise_conv"] / _DEPTHWISE_FLOPS
        + graph.activations / _ELEMENTS_PER_S
    )
    exchange_s = 2 * (workers - 1) / workers * 4 * graph.parameter_count / (LINK_MBPS * 125_000)
    return batch_size * passes_s + exchange_s


def eligible() -> dict[str, list[str]]:
    """Return the networks that take part, by family; both sorted."""
    graphs = primitive_graphs((name, SIDE) for name in LIBRARY)
    found: dict[str, list[str]] = {}
    for (name, _), graph in sorted(graphs.items()):
        fits = graph.parameter_count <= MOST_PARAMETERS and graph.activations <= MOST_ELEMENTS
        if fits and expected_step_s(graph) <= MOST_S:
            found.setdefault(LIBRARY[name].family, []).append(name)
    return dict(sorted(found.items()))


def chosen(families: dict[str, list[str]], chance: Random) -> tuple[list[str], list[str]]:
    """Return the networks that are trained on, and those of other families."""
    order = list(families)
    chance.shuffle(order)
    large = [name for name in order if len(families[name]) >= 2][:8]
    others = [name for name in order if name not in large][:8]
    trained = [dnn for name in large for dnn in sorted(chance.sample(families[name], 2))]
    return trained, [chance.choice(families[name]) for name in others]


def train_points(trained: Sequence[str], chance: Random) -> Iterator[Point]:
    """Yield five setups of each network, each setup as often as any other."""
    setups = list(product((1, 2, 4, 8), (4, 12), TYPES))
    chance.shuffle(setups)
    following = cycle(setups)
    for dnn in trained:
        for workers, batch_size, worker in (next(following) for _ in range(5)):
            yield Point(dnn, batch_size, worker, workers)


def test_points(trained: Sequence[str], others: Sequence[str], chance: Random) -> Iterator[Point]:
    """Yield what judges: seen networks, other families, a third node type."""
    fast, slow = TYPES
    held = cycle([(3, 8, fast), (6, 8, slow), (6, 4, fast), (3, 12, slow), (3, 4, slow)])
    mixes = cycle([f"2 {fast}@8 + 2 {slow}@4", f"3 {fast}@12 + 3 {slow}@8"])
    for place, dnn in enumerate(trained):
        for number in range(2):
            if number and place % 4 == 0:
                yield Point(dnn, 0, "", 0, next(mixes))
            else:
                workers, batch_size, worker = next(held)
                yield Point(dnn, batch_size, worker, workers)
    unseen = cycle(
        [
            *((1, 8, fast), (2, 4, slow), (4, 12, fast), (8, 4, slow), (3, 8, fast)),
            *((1, 12, slow), (2, 8, fast), (4, 4, slow), (8, 8, fast), (6, 4, slow)),
        ]
    )
    for dnn in others:
        for _ in range(5):
            workers, batch_size, worker = next(unseen)
            yield Point(dnn, batch_size, worker, workers)
    for dnn in (*chance.sample(list(trained), 2), *chance.sample(list(others), 2)):
        yield Point(dnn, 4, THIRD, 2)
        yield Point(dnn, 8, THIRD, 4)


def reserve_points(
    trained: Sequence[str], others: Sequence[str], used: Iterable[Point], chance: Random
) -> list[Point]:
    """Return 24 setups that are neither trained on nor tested, half of them of each kind."""
    taken = set(used)
    found: list[Point] = []
    for group in (trained, others):
        free = [
            point
            for dnn in group
            for workers, batch_size, worker in product((1, 2, 3, 4, 6, 8), (4, 8, 12), TYPES)
            if (point := Point(dnn, batch_size, worker, workers)) not in taken
        ]
        found += chance.sample(free, 12)
    return found


def templates(points: Iterable[Point]) -> Iterator[str]:
    """Yield the lines of scenarios: those that differ in workers only are one curve."""
    curves: dict[tuple[str, int, str], list[int]] = {}
    mixes: list[Point] = []
    for point in points:
        if point.mix:
            mixes.append(point)
        else:
            curves.setdefault(point[:3], []).append(point.workers)
    common = f"framework: pytorch, strategy: all_reduce, image_size: {SIDE}"
    for (dnn, batch_size, worker), workers in sorted(curves.items()):
        yield (
            f"  - {{dnn: {dnn}, {common}, batch_size: {batch_size}, worker: {worker}, "
            f"link_mbps: {LINK_MBPS}, workers: {sorted(workers)}}}"
        )
    for point in mixes:
        yield f"  - {{dnn: {point.dnn}, {common}, link_mbps: {LINK_MBPS}, mix: {point.mix}}}"


def text() -> str:
    """Return the study file."""
    chance = Random(SEED)
    trained, others = chosen(eligible(), chance)
    train = list(train_points(trained, chance))
    test = list(test_points(trained, others, chance))
    reserve = reserve_points(trained, others, (*train, *test), chance)
    return "\n".join(
        [
            "# Made by scripts/reference_grid.py, which has the rule, from seed "
            f"{SEED}, before anything of it was measured.",
            f"# Trained on: {', '.join(trained)}.",
            f"# Of other families: {', '.join(others)}.",
            "name: reference_grid",
            "description: 24 networks of 16 families on two node types, some on a third and on "
            "mixes; 500 Mb/s links.",
            "backend: emulated",
            "",
            "systems:",
            *(f"  - {name}" for name in _SYSTEMS),
            "probes:",
            "  inventory: {turns: 5, seconds: 1}",
            "  links: {flows: [1, 2], seconds: 2, trials: 2}",
            "  allreduce: {sizes_bytes: [4, 1024, 16384, 262144, 1048576, 4194304, 33554432], "
            "world_sizes: [2, 4, 8], concurrent: [1, 2], trials: 4}",
            "  torch_operations: {timed_steps: 60, untimed_steps: 10}",
            "  torch_compute: {batch_sizes: [2, 4, 8, 12], trials: 12, interval: 0.05, most_s: 60, "
            "watched_trials: 3}",
            "  torch_throughput: {iterations: 60, interval: 0.03, most_s: 45}",
            "",
            f"# {len(train)} runs.",
            "train:",
            *templates(train),
            "",
            f"# {len(test)} points.",
            "test:",
            *templates(test),
            "",
            f"# {len(reserve)} points: forecast, and not measured here.",
            "reserve:",
            *templates(reserve),
            "",
        ]
    )


def main() -> None:
    """Write the study; with --check say whether it is what is committed."""
    made = text()
    if "--check" in sys.argv[1:]:
        sys.exit(made != FILE.read_text())
    FILE.write_text(made)


if __name__ == "__main__":
    main()
