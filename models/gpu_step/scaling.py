"""How training scales: steps of the same batch a GPU on few GPUs and on more, as others timed them.

What one GPU needs is taken from the source itself, so that only the exchange is judged. Parameters
of networks are those of their papers and model zoos; sources do not tell them. A network whose
variant is not told (DeepSpeech 2, NCF of `ddp_step_time_sia`) is left out.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Any, Literal

from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.data_parallel import Exchange, Passes, distributed_s, sharded_s
from models.gpu_step.public_rows import Fields, RowsBySet
from models.gpu_step.timed_collectives import connections_bps

Kind = Literal["all_reduce", "sharded"]
_GPUS = 8
OPTIMIZER_SHARE = 0.03
"""Share of a step of one GPU that is the optimizer's."""
_HALVINGS = 16
"""Of the interval in which the time of one GPU is sought."""
_MOST = 60
"""Scalings of a source that straggling is fitted to."""
_STRAGGLINGS = (0.0, 0.005, 0.01, 0.02, 0.03)

Network = tuple[tuple[int, float], ...]
"""Stages in the order of parameters: how many tensors, all alike, and megabytes of all of them."""
_RESNET50: Network = ((3, 0.04), (30, 0.86), (39, 4.88), (57, 28.4), (30, 59.9), (2, 8.2))
_SIA: Mapping[str, Network] = {
    "bert": ((1, 93.8), (4, 1.6), (192, 340.2), (2, 2.4)),  # BERT-base (Devlin et al.)
    "imagenet": _RESNET50,  # He et al.
    "cifar10": ((3, 0.01), (12, 0.59), (15, 2.1), (15, 8.4), (15, 33.6), (2, 0.02)),  # ResNet-18
    # Redmon and Farhadi: stages of Darknet-53, then three scales of boxes.
    "yolov3": (
        *((12, 0.3), (15, 1.0), (51, 11.7), (51, 46.7), (27, 102.8)),
        *((20, 63.9), (23, 17.0), (23, 4.3)),
    ),
}
_LAMBDA: Mapping[str, Network] = {
    "resnet50": _RESNET50,
    "inception3": ((190, 95.2),),
    "inception4": ((300, 170.8),),
    # Simonyan and Zisserman; three dense layers are nine tenths of it.
    "vgg16": (
        *((4, 0.15), (4, 0.89), (6, 5.9), (2, 4.7), (10, 47.2)),
        *((1, 411.0), (1, 0.02), (1, 67.1), (1, 0.02), (1, 16.4), (1, 0.0)),
    ),
}
_LINKS = (
    ("A100-SXM4", 300e9),
    ("V100-SXM3", 150e9),
    ("A100-PCIE", 16e9),
    ("RTX_A6000", 16e9),
    ("GeForce_RTX_30", 16e9),
    ("RTX_8000", 8e9),
    ("RTX_2080", 8e9),
)
"""Rated bytes/s by a word in a system's name; bridges of NVLink join pairs, so rings cross PCIe."""
_MPT_LAYERS = {"125m": 12, "350m": 24, "760m": 24, "1b": 24, "3b": 32, "7b": 32}
_TENSORS_A_LAYER = 10
_RDMA_BPS = 200e9


@dataclass(frozen=True)
class Scaling:
    """Seconds of a step on the fewest GPUs of a source and on more, with the same batch a GPU."""

    source: str
    network: str
    kind: Kind
    sizes_bytes: tuple[float, ...]
    accumulate: int
    fewest: Topology
    fewest_s: float
    more: Topology
    more_s: float

    @property
    def factor(self) -> float:
        """How many times as long a step takes: 1 is linear scaling."""
        return self.more_s / self.fewest_s


def read_scalings(rows: RowsBySet) -> tuple[Scaling, ...]:
    """Return what sources tell of scaling."""
    return (
        *_sia(rows.get(("sia", "ddp_step_time_sia"), ())),
        *_lambda(rows.get(("lambda", "tf_cnn_benchmarks_lambda"), ())),
        *_mpt(rows.get(("mpt", "mpt_training_a100"), ())),
    )


def _sia(rows: Iterable[Fields]) -> Iterator[Scaling]:
    """Yield scalings of even placements from one GPU on."""
    steps = [row for row in rows if row["metric"] == "step_time_s" and row["network"] in _SIA]
    alone = _means(
        ((row["network"], row["batch"]), row["value"]) for row in steps if row["gpus"] == 1
    )
    keys = ("network", "batch", "gpus", "nodes", "placement")
    more = _means((tuple(row[key] for key in keys), row["value"]) for row in steps)
    for (network, batch, gpus, nodes, placement), seconds in more.items():
        if gpus == 1 or len(set(str(placement))) > 1 or (network, batch) not in alone:
            continue
        link_bps, network_bps = 8e9, connections_bps(nodes)
        yield Scaling(
            "ddp_step_time_sia",
            network,
            "all_reduce",
            _sizes_bytes(_SIA[network]),
            1,
            Topology(1, 1, link_bps, network_bps),
            alone[network, batch],
            Topology(gpus // nodes, nodes, link_bps, network_bps),
            seconds,
        )


def _lambda(rows: Iterable[Fields]) -> Iterator[Scaling]:
    keys = ("system", "network", "precision", "distortions", "batch")
    speeds = _means(
        ((*(row[key] for key in keys), row["gpus"]), row["value"])
        for row in rows
        if row["network"] in _LAMBDA
    )
    for (system, network, *others, gpus), samples_per_s in speeds.items():
        link_bps = next((bps for word, bps in _LINKS if word in system), None)
        alone = speeds.get((system, network, *others, 1))
        if gpus == 1 or alone is None or link_bps is None:
            continue
        batch = others[-1]
        yield Scaling(
            "tf_cnn_benchmarks_lambda",
            network,
            "all_reduce",
            _sizes_bytes(_LAMBDA[network]),
            1,
            Topology(1, 1, link_bps, link_bps),
            batch / alone,
            Topology(gpus, 1, link_bps, link_bps),
            batch * gpus / samples_per_s,
        )


def _mpt(rows: Iterable[Fields]) -> Iterator[Scaling]:
    """Yield scalings without activation checkpointing, from the fewest nodes that are told."""
    keys = ("device", "network", "sequence_length", "batch", "accumulate", "mode")
    groups: dict[tuple[Any, ...], list[Fields]] = defaultdict(list)
    for row in rows:
        if row["checkpointing"] == "False" and row["network"] in _MPT_LAYERS:
            groups[tuple(row[key] for key in keys)].append(row)
    for (_, network, _, _, accumulate, _), group in groups.items():
        fewest, *others = sorted(group, key=lambda row: int(row["gpus"]))
        tensors = _MPT_LAYERS[network] * _TENSORS_A_LAYER
        for row in others:
            yield Scaling(
                "mpt_training_a100",
                network,
                "sharded",
                tuple([2.0 * row["parameters"] / tensors] * tensors),
                accumulate,
                Topology(_GPUS, fewest["gpus"] // _GPUS, 300e9, _RDMA_BPS),
                fewest["tokens"] / fewest["value"],
                Topology(_GPUS, row["gpus"] // _GPUS, 300e9, _RDMA_BPS),
                row["tokens"] / row["value"],
            )


def _means(values: Iterable[tuple[tuple[Any, ...], float]]) -> dict[tuple[Any, ...], float]:
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for key, value in values:
        groups[key].append(value)
    return {key: fmean(several) for key, several in groups.items()}


def _sizes_bytes(network: Network) -> tuple[float, ...]:
    return tuple(1e6 * total_mb / count for count, total_mb in network for _ in range(count))


# Forecasts of it.


def exchanges_of(scaling: Scaling, collectives: Collectives) -> tuple[Exchange, Exchange]:
    """Return what is exchanged on the fewest GPUs, and on more."""
    fewest, more = (
        Exchange(scaling.sizes_bytes, collectives, each) for each in (scaling.fewest, scaling.more)
    )
    return fewest, more


def forecast_s(scaling: Scaling, exchanges: tuple[Exchange, Exchange], straggling: float) -> float:
    """Return seconds of a step on more GPUs, from that on the fewest alone.

    What a step would take on one GPU is found by halving.
    """
    fewest, more = exchanges
    if scaling.fewest.ranks == 1:
        return _step_s(scaling, scaling.fewest_s, more, straggling)
    low, high = 0.0, scaling.fewest_s
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        step_s = _step_s(scaling, middle, fewest, straggling)
        low, high = (low, middle) if step_s > scaling.fewest_s else (middle, high)
    return _step_s(scaling, low, more, straggling)


def _step_s(scaling: Scaling, alone_s: float, exchange: Exchange, straggling: float) -> float:
    passes_s = alone_s * (1 - OPTIMIZER_SHARE) / scaling.accumulate
    passes = Passes(passes_s, alone_s * OPTIMIZER_SHARE, scaling.accumulate)
    step = sharded_s if scaling.kind == "sharded" else distributed_s
    return step(passes, exchange, straggling)


def fit_straggling(scalings: Sequence[Scaling], collectives: Collectives) -> float:
    """Return the straggling with the least mean error, each source counting alike."""
    by_source: dict[str, list[Scaling]] = defaultdict(list)
    for scaling in scalings:
        by_source[scaling.source].append(scaling)
    thinned = [
        [group[place * len(group) // count] for place in range(count)]
        for group in by_source.values()
        for count in [min(len(group), _MOST)]
    ]
    exchanges = {id(each): exchanges_of(each, collectives) for group in thinned for each in group}

    def error(scaling: Scaling, straggling: float) -> float:
        seconds = forecast_s(scaling, exchanges[id(scaling)], straggling)
        return abs(log(seconds / scaling.more_s))

    def missed(straggling: float) -> float:
        return fmean(fmean(error(scaling, straggling) for scaling in group) for group in thinned)

    return min(_STRAGGLINGS, key=missed) if thinned else 0.0


def judged_sources(
    scalings: Sequence[Scaling], collectives: Collectives
) -> list[tuple[Scaling, float]]:
    """Return each scaling with its error, by a fit of straggling to the other sources.

    Errors are logarithms of forecast over measured.
    """
    judged = []
    for source in sorted({scaling.source for scaling in scalings}):
        others = [scaling for scaling in scalings if scaling.source != source]
        straggling = fit_straggling(others, collectives)
        for scaling in (each for each in scalings if each.source == source):
            exchanges = exchanges_of(scaling, collectives)
            seconds = forecast_s(scaling, exchanges, straggling)
            judged.append((scaling, log(seconds / scaling.more_s)))
    return judged
