"""Writes reference_grid, studies beside it, and studies of GPUs by rule and seed.

The rule, before anything of them was measured:

1. A network of `networks.library` takes part if its step is expected to take 4 s at most with 8
   nodes and 12 images each (`profilers.expected`, on the slower of two node types), and to fit into
   the memory of the smallest node type: at most 14 million parameters, and 3 million elements of
   results for each image.
2. Families that have two such networks or more are shuffled; the first eight are trained on, with
   two networks each, drawn by chance. Of all other families the next eight are tested, with one.
3. Train: of the 16 setups of W = 1, 2, 4, 8 × batch 4, 12 × two node types each network has five,
   so that each setup is there five times.
4. Test: two setups of each trained network that no train run has (W = 3 or 6, batch 8, mixes), five
   of each other network, two of four networks on a third node type.
5. Reserve: 24 setups of either kind that are neither trained on nor tested.
6. Anchors: the trained networks with the smallest, the middle and the largest expected step, on
   either node type, with two nodes, or as many as needed to be neither tested nor in reserve.
7. Pilot: the anchors, and six train runs of other networks, drawn by chance.
8. Ernest: of each network of another family the test point with most workers, the first of several.
   Ernest measures its own runs for each of them: 270 runs, half of all, if it forecast the grid.
9. H200: the same networks on one device, with images of 224 pixels. Trained on 16 and 64 images a
   batch; tested on 32 of the first network of each family, and on 16, 32 and 64 of the others.
10. H100: the same, with one network of each of eight families that no study before has, whatever
   their size: systems had been changed after the tests on the H200. Of the trained networks there
   was time for the first 14 by name.
11. Third type: of the first network of each trained family two setups, one of them of one node.
12. Another host: the test points whose nodes need no AVX-512, on a host of which there is only an
   inventory. Forecasts rest on what the first host measured of 3 and 11.
13. Few steps: the same host, with six runs of its own, those that `python -m benchmarks.few
   --choose 6` says from its inventory. Tested on a network of each family that no study on
   emulated nodes has, in two setups and one on the third type; and on each trained network of
   which no run was chosen, in a setup that nobody measured there.

Run it with `python scripts/reference_grid.py`; the files are committed, and a test compares.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, product
from pathlib import Path
from random import Random
from typing import NamedTuple

from networks.figures import table
from networks.library import LIBRARY
from profilers.expected import step_s
from studies.curve import Curve

SEED = 32
SIDE, LINK_MBPS = 64, 500
TYPES, THIRD = ("emu.avx512.s15", "emu.avx2.s15"), "emu.sse41.s15"
MOST_S, MOST_PARAMETERS, MOST_ELEMENTS = 4.0, 14e6, 3e6
FOLDER = Path(__file__).parents[1] / "studies"
GRID, PILOT = FOLDER / "reference_grid.yaml", FOLDER / "grid_pilot.yaml"
ERNEST, THIRD_TYPE = FOLDER / "grid_ernest.yaml", FOLDER / "grid_third.yaml"
OTHER_HOST, FEW = FOLDER / "grid_host.yaml", FOLDER / "grid_few.yaml"
H200, H100 = FOLDER / "reference_gpu.yaml", FOLDER / "reference_h100.yaml"
GPU_SIDE = 224
_LEARNED = (
    *("predictddl", "predictddl_paper", "predictddl_untrained", "predictddl_histogram"),
    *("log_linear", "black_box", "gray_box"),
)
_SYSTEMS = (
    *("srift", "ideal_scaling", "ceer_pytorch", "ceer_pytorch_paper"),
    *_LEARNED,
    "ernest_pooled",
)
_INVENTORY = "  inventory: {turns: 5, seconds: 1}"
_OPERATIONS = "  torch_operations: {timed_steps: 60, untimed_steps: 10}"
_THROUGHPUT = "  torch_throughput: {iterations: 60, interval: 0.03, most_s: 45}"

_FROM_THE_FIRST = (
    "backend: emulated",
    "",
    "systems: [predictddl, predictddl_paper, log_linear]",
    "learns_from: [reference_grid, grid_third]",
    "probes:",
    _INVENTORY,
    _THROUGHPUT,
    "again: {profiles: false}",
    "",
)
"""How a second host is asked about, from steps of the first."""


class Point(NamedTuple):
    """A scenario: of a network, images of each node, the node type or mix, and workers."""

    dnn: str
    batch_size: int
    worker: str
    workers: int
    mix: str = ""


class Chosen(NamedTuple):
    """All points of both studies."""

    trained: Sequence[str]
    others: Sequence[str]
    train: Sequence[Point]
    test: Sequence[Point]
    reserve: Sequence[Point]
    anchors: Sequence[Point]
    beside: Sequence[Point]


def expected_step_s(dnn: str, workers: int = 8, batch_size: int = 12) -> float:
    """Return about what a step takes on the slower of both node types.

    Raises:
        KeyError: the size of the network is unknown.
    """
    curve = Curve(
        dnn=dnn,
        framework="pytorch",
        strategy="all_reduce",
        image_size=SIDE,
        batch_size=batch_size,
        worker=TYPES[1:],
        link_mbps=LINK_MBPS,
        workers=(workers,),
    )
    found = step_s(curve.scenario(workers, "emulated"))
    if found is None:
        raise KeyError(dnn)
    return found


def eligible() -> dict[str, list[str]]:
    """Return the networks that take part, by family; both sorted."""
    found: dict[str, list[str]] = {}
    for name in sorted(LIBRARY):
        size = table()[name].at(SIDE)
        fits = size.parameters <= MOST_PARAMETERS and size.activations <= MOST_ELEMENTS
        if fits and expected_step_s(name) <= MOST_S:
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


def anchor_points(trained: Sequence[str], taken: Iterable[Point]) -> Iterator[Point]:
    """Yield a setup of a small, a middle and a large network on each type, none of `taken`."""
    hidden = set(taken)
    by_size = sorted(trained, key=expected_step_s)
    for dnn in (by_size[0], by_size[len(by_size) // 2], by_size[-1]):
        for worker in TYPES:
            setups = product((2, 4, 8, 1), (12, 4))
            points = (Point(dnn, batch_size, worker, workers) for workers, batch_size in setups)
            yield next(point for point in points if point not in hidden)


def choose() -> Chosen:
    """Return what both studies are of."""
    chance = Random(SEED)
    trained, others = chosen(eligible(), chance)
    train = list(train_points(trained, chance))
    test = list(test_points(trained, others, chance))
    reserve = reserve_points(trained, others, (*train, *test), chance)
    anchors = list(anchor_points(trained, (*test, *reserve)))
    of_anchors = {point.dnn for point in anchors}
    beside = chance.sample([point for point in train if point.dnn not in of_anchors], 6)
    return Chosen(trained, others, train, test, reserve, anchors, beside)


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


def grid(of: Chosen) -> str:
    """Return the text of reference_grid.yaml."""
    lines = [
        "# Made by scripts/reference_grid.py, which has the rule, from seed "
        f"{SEED}, before anything of it was measured.",
        f"# Trained on: {', '.join(of.trained)}.",
        f"# Of other families: {', '.join(of.others)}.",
        "name: reference_grid",
        "description: 24 networks of 16 families on two node types, some on a third and on mixes; "
        "500 Mb/s links.",
        "backend: emulated",
        "",
        "systems:",
        *(f"  - {name}" for name in _SYSTEMS),
        "probes:",
        _INVENTORY,
        "  links: {flows: [1, 2], seconds: 2, trials: 2}",
        "  allreduce: {sizes_bytes: [4, 1024, 16384, 262144, 1048576, 4194304, 33554432], "
        "world_sizes: [2, 4, 8], concurrent: [1, 2], trials: 4}",
        _OPERATIONS,
        "  torch_compute: {batch_sizes: [2, 4, 8, 12], trials: 12, interval: 0.05, most_s: 60, "
        "watched_trials: 3}",
        _THROUGHPUT,
        "# The second round measures all test points again, on another day, and profiles nothing.",
        "again: {profiles: false}",
        "",
        f"# {len(of.train)} runs.",
        "train:",
        *templates(of.train),
        "",
        f"# {len(of.test)} points.",
        "test:",
        *templates(of.test),
        "",
        f"# {len(of.reserve)} points: forecast, and not measured here.",
        "reserve:",
        *templates(of.reserve),
        "",
        f"# {len(of.anchors)} scenarios: how fast the host is.",
        "anchors:",
        "  every_hours: 2",
        "  scenarios:",
        *(f"  {line}" for line in templates(of.anchors)),
        "",
    ]
    return "\n".join(lines)


def pilot(of: Chosen) -> str:
    """Return the text of grid_pilot.yaml."""
    lines = [
        "# Made by scripts/reference_grid.py: how much equal steps differ from round to round, and "
        "how much of it anchors tell.",
        "# `stepcast noise studies/grid_pilot.yaml --anchors studies/reference_grid.yaml`",
        "name: grid_pilot",
        f"description: The anchors of reference_grid and {len(of.beside)} of its train runs, again "
        "and again.",
        "backend: emulated",
        "",
        "probes:",
        _INVENTORY,
        _THROUGHPUT,
        "",
        "train:",
        *templates((*of.anchors, *of.beside)),
        "",
    ]
    return "\n".join(lines)


def workloads(of: Chosen) -> list[Point]:
    """Return the test point with most workers of each network of another family."""
    found = []
    for dnn in of.others:
        own = [point for point in of.test if point.dnn == dnn and point.worker in TYPES]
        found.append(max(own, key=lambda point: point.workers))
    return found


def ernest(of: Chosen) -> str:
    """Return the text of grid_ernest.yaml."""
    lines = [
        "# Made by scripts/reference_grid.py: what Ernest measures for eight workloads, and how "
        "far off it is then.",
        "name: grid_ernest",
        "description: Of each other family in reference_grid the test point with most workers, "
        "by Ernest's own runs.",
        "backend: emulated",
        "",
        "systems: [ernest]",
        "probes:",
        _THROUGHPUT,
        "again: {profiles: false}",
        "",
        "test:",
        *templates(workloads(of)),
        "",
    ]
    return "\n".join(lines)


def third(of: Chosen) -> str:
    """Return the text of grid_third.yaml."""
    turns = zip(of.trained[::2], cycle((2, 4)), strict=False)
    train = [Point(dnn, 4, THIRD, each) for dnn, workers in turns for each in (1, workers)]
    lines = [
        "# Made by scripts/reference_grid.py: what steps and operations on the third node type of "
        "reference_grid are worth there.",
        "name: grid_third",
        "description: The test points of reference_grid on its third node type, with steps and "
        "operations of eight networks there.",
        "backend: emulated",
        "",
        "systems: [ceer_pytorch, ceer_pytorch_paper, predictddl, log_linear]",
        "probes:",
        _INVENTORY,
        _OPERATIONS,
        _THROUGHPUT,
        "again: {profiles: false}",
        "",
        f"# {len(train)} runs.",
        "train:",
        *templates(train),
        "",
        "test:",
        *templates(point for point in of.test if point.worker == THIRD),
        "",
    ]
    return "\n".join(lines)


def other_host(of: Chosen) -> str:
    """Return the text of grid_host.yaml."""
    lines = [
        "# Made by scripts/reference_grid.py: what steps of one host tell of another, of which "
        "there is an inventory.",
        "name: grid_host",
        "description: The test points of reference_grid on nodes without AVX-512, learned from "
        "another host.",
        *_FROM_THE_FIRST,
        "test:",
        *templates(point for point in of.test if point.worker in (TYPES[1], THIRD)),
        "",
    ]
    return "\n".join(lines)


def few(of: Chosen) -> str:
    """Return the text of grid_few.yaml."""
    slow = TYPES[1]
    train = [
        Point("sqnxt23_w2", 4, slow, 1),
        Point("preresnet14", 12, slow, 2),
        Point("resnext26_32x4d", 4, slow, 2),
        Point("shufflenet_g1_wd2", 4, slow, 1),
        Point("mobilenet_w3d4", 12, slow, 1),
        Point("squeezenet_v1_0", 12, slow, 1),
    ]
    chance = Random(SEED)
    used = {LIBRARY[name].family for name in (*of.trained, *of.others)}
    setups = cycle(product((1, 2, 4, 8), (4, 12)))
    test = []
    for names in (found for name, found in eligible().items() if name not in used):
        dnn = chance.choice(names)
        test += [Point(dnn, batch, slow, each) for each, batch in (next(setups), next(setups))]
        test.append(Point(dnn, 4, THIRD, 2))
    chosen_runs = {point.dnn for point in train}
    for dnn in (name for name in of.trained if name not in chosen_runs):
        workers, batch_size = next(setups)
        test.append(Point(dnn, batch_size, slow, workers))
    lines = [
        "# Made by scripts/reference_grid.py: what six runs on a host are worth, beside many of "
        "another.",
        "name: grid_few",
        "description: Ten further families and ten known networks, learned from another host and "
        "six runs of this one.",
        *_FROM_THE_FIRST,
        "train:",
        *templates(train),
        "",
        "test:",
        *templates(test),
        "",
    ]
    return "\n".join(lines)


def further(of: Chosen) -> list[str]:
    """Return a network of each of eight families of which no study before has any."""
    used = {LIBRARY[name].family for name in (*of.trained, *of.others)}
    families: dict[str, list[str]] = {}
    for name in sorted(LIBRARY):
        if LIBRARY[name].family not in used:
            families.setdefault(LIBRARY[name].family, []).append(name)
    chance = Random(SEED)
    return [chance.choice(families[name]) for name in chance.sample(sorted(families), 8)]


def gpu_templates(worker: str, dnns: Iterable[str], batch_sizes: Iterable[int]) -> Iterator[str]:
    """Yield the lines of scenarios of one device."""
    common = f"framework: pytorch, strategy: all_reduce, image_size: {GPU_SIDE}"
    for dnn, batch_size in product(dnns, batch_sizes):
        yield (
            f"  - {{dnn: {dnn}, {common}, batch_size: {batch_size}, worker: {worker}, "
            "link_mbps: 100000, workers: [1]}"
        )


def h200(of: Chosen) -> str:
    """Return the text of reference_gpu.yaml."""
    return _gpu("reference_gpu", "h200", "the networks of reference_grid", of.trained, of.others)


def h100(of: Chosen) -> str:
    """Return the text of reference_h100.yaml."""
    about = "networks of reference_grid, and of other families,"
    trained = [name for name in of.trained if name in sorted(of.trained)[:14]]
    return _gpu("reference_h100", "h100", about, trained, further(of))


def _gpu(name: str, device: str, about: str, trained: Sequence[str], others: Sequence[str]) -> str:
    worker, dnns = f"gpu.{device}", (*trained, *others)
    families = len({LIBRARY[dnn].family for dnn in dnns})
    lines = [
        f"# Made by scripts/reference_grid.py: {about} on one GPU.",
        f"name: {name}",
        f"description: {len(dnns)} networks of {families} families on one {device.upper()}, images "
        f"of {GPU_SIDE} pixels.",
        "backend: loopback",
        "",
        "systems:",
        *(f"  - {name}" for name in _LEARNED),
        "probes:",
        "  inventory: {turns: 5, seconds: 0.5}",
        "  torch_throughput: {iterations: 100, interval: 0.02, most_s: 4}",
        "again: {profiles: false}",
        "",
        "train:",
        *gpu_templates(worker, sorted(trained), (16, 64)),
        "",
        "test:",
        *gpu_templates(worker, sorted(trained[::2]), (32,)),
        *gpu_templates(worker, sorted(others), (16, 32, 64)),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Write all studies."""
    of = choose()
    GRID.write_text(grid(of))
    PILOT.write_text(pilot(of))
    ERNEST.write_text(ernest(of))
    THIRD_TYPE.write_text(third(of))
    OTHER_HOST.write_text(other_host(of))
    FEW.write_text(few(of))
    H200.write_text(h200(of))
    H100.write_text(h100(of))


if __name__ == "__main__":
    main()
