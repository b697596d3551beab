"""Public measurements: which of a file's rows fits may see, and which systems forecast the others.

A system joins a file with a function from the rows that may be seen to something that predicts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import mul
from typing import Protocol

import polars as pl

from models import public_rates
from models.ceer import public_files
from models.ceer.public_files import fit_layers, fit_sums
from models.predictddl.public_files import fit_sizes
from models.srift import public_files as allreduces
from models.srift.public_files import fit_placements

# A study of a public file: who forecasts which of its rows, having seen which.


class FittedRows(Protocol):
    """A model fitted to rows of `raw.external`."""

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value, low and high of the subjects it can speak of."""

    def parameters_json(self) -> str:
        """Return the fitted parameters."""


@dataclass(frozen=True)
class Contender:
    """A system and how it is fitted to a file's rows.

    `fit` gets a row per measurement that may be seen: subject_id, what its subject holds in columns
    of their own, value and repeat. `predict` gets the subjects held out in the same columns,
    without value. `what` and `source` register a name that came with no schema.
    """

    system: str
    version: str
    fit: Callable[[pl.DataFrame], FittedRows]
    what: str = ""
    source: str = ""


@dataclass(frozen=True)
class PublicSet:
    """A study of a public file: the metric forecast, and which rows of `external` fits may see.

    Only `rows` take part. `mapping`, of `mappings/subjects`, stands in for the file's own.
    """

    name: str
    file: str
    metric: str
    unit: str
    seen: pl.Expr
    contenders: tuple[Contender, ...]
    rows: pl.Expr = field(default_factory=lambda: pl.lit(value=True))
    mapping: str | None = None


def subject(key: str) -> pl.Expr:
    """Return a key of the subject of `external`, as text."""
    return pl.col("subject").str.json_path_match(f"$.{key}")


MEDIAN_POLISH = Contender(
    "median_polish",
    "1",
    fit_placements,
    "A replica's step, and the size of a network's exchange times the slowness of a placement",
    "Tukey, Exploratory Data Analysis, 1977; bus bandwidth as in Srift, section 4.2",
)
CEER_OVERHEAD = Contender(
    "ceer_overhead",
    "1",
    public_files.fit_steps,
    "What several devices add to a step, linear in a network's parameters",
    "Hafeez, Gandhi, Ceer, section IV-C; the rest of Ceer has no part in it",
)
CEER_OPERATIONS_PAPER = Contender(
    "ceer_operations_paper",
    "1",
    fit_layers("paper"),
    "Times of single operations by regression, as Ceer published it",
    "Hafeez, Gandhi, Ceer, section IV-B; the rest of Ceer has no part in it",
)
PREDICTDDL_SIZES = Contender(
    "predictddl_sizes",
    "1",
    fit_sizes("work"),
    "Steps from operations, activations and parameters, and boosted trees of their ratios",
    "ours: PredictDDL's question where a file has no graphs",
)
LOG_LINEAR_SIZES = Contender(
    "log_linear_sizes",
    "1",
    fit_sizes("log_linear"),
    "Logarithms of steps by those of operations, activations, parameters and batch",
    "baseline",
)
SUMS = tuple(
    Contender(name, "1", fit, f"Sums of timed operations of a step; S: {what}", source)
    for name, fit, what, source in (
        ("operations_sum", fit_sums("nothing"), "nothing", "baseline"),
        (
            "ceer_sum",
            fit_sums("parameters"),
            "linear in parameters",
            "Hafeez, Gandhi, Ceer, section IV-C",
        ),
        ("ceer_sum_launches", fit_sums("launches"), "so much for each operation", "ours"),
    )
)


def _allreduces_without(nodes: int) -> PublicSet:
    return PublicSet(
        f"allreduce_nccl_tests_{nodes}_nodes",
        "allreduce_nccl_tests",
        "allreduce_time_s",
        "s",
        subject("nodes") != str(nodes),
        (
            Contender("srift_allreduce", "1", allreduces.fit("learned")),
            Contender(
                "allreduce_topology",
                "1",
                allreduces.fit_collectives,
                "Latency and bandwidth by protocol and level, held to those of all clusters",
                "ours, after NCCL and Srift, section 4.2",
            ),
            Contender("allreduce_alpha_beta", "1", allreduces.fit("alpha_beta")),
            Contender("allreduce_rated", "1", allreduces.fit("rated")),
        ),
        mapping="allreduce_nccl_tests",
    )


def _asynchronous_without(dnn: str) -> PublicSet:
    return PublicSet(
        f"async_ps_cmdare_{dnn}",
        "async_ps_cmdare",
        "throughput_steps_per_s",
        "1/s",
        (subject("dnn") != dnn) | (subject("world_size") == "1"),
        (
            Contender("lin", "1", public_rates.fit_queue_rates("lin")),
            Contender("cynthia", "1", public_rates.fit_queue_rates("cynthia")),
        ),
    )


def _placements_without(dnn: str) -> PublicSet:
    return PublicSet(
        f"ddp_step_time_sia_{dnn}",
        "ddp_step_time_sia",
        "step_time_s",
        "s",
        (subject("dnn") != dnn) | (subject("nodes") == "1"),
        (MEDIAN_POLISH,),
        pl.col("metric") == "step_time_s",
    )


def _steps_without(dnn: str) -> PublicSet:
    same = ("node_type", "dataset", "variable_update", "precision", "distortions", "mode", "dnn")
    return PublicSet(
        f"tf_cnn_benchmarks_lambda_{dnn}",
        "tf_cnn_benchmarks_lambda",
        "throughput_samples_per_s",
        "1/s",
        (subject("dnn") != dnn) | (subject("world_size") == "1"),
        (
            CEER_OVERHEAD,
            Contender("linear", "1", public_rates.fit_linear_rates(*same, "batch_size")),
        ),
        (pl.col("metric") == "throughput_samples_per_s") & (subject("mode") == "train"),
    )


def _families_without(letters: str) -> PublicSet:
    """Leave out the families of networks whose names begin with some letters."""
    begins = subject("family").str.slice(0, 1).str.to_lowercase()
    return PublicSet(
        f"train_step_timm_rtx3090_{letters[0]}_{letters[-1]}",
        "train_step_timm_rtx3090",
        "step_time_s",
        "s",
        ~begins.is_in(list(letters)),
        (PREDICTDDL_SIZES, LOG_LINEAR_SIZES),
        pl.col("metric") == "step_time_s",
    )


def _sums_without(family: str) -> PublicSet:
    """Leave out a family; traces of BERT and GPT-2 on A100-PCIE that clocks slowed are no sums."""
    bad = (subject("node_type") == "NVIDIA_A100-PCIE-40GB") & (subject("family") != "OPT")
    name = family.lower().replace("-", "_")
    return PublicSet(
        f"neusight_steps_{name}",
        "neusight_steps",
        "step_time_s",
        "s",
        subject("family") != family,
        SUMS,
        (subject("trace") == "present") & ~bad,
    )


def _layers(file: str, name: str, seen: pl.Expr) -> PublicSet:
    return PublicSet(
        f"{file}_{name}",
        file,
        "operation_time_median_s",
        "s",
        seen,
        (
            Contender("ceer_operations", "2", fit_layers("own")),
            CEER_OPERATIONS_PAPER,
        ),
        pl.col("metric") == "operation_time_median_s",
    )


def _multiplications(*keys: str) -> pl.Expr:
    """Return the product of keys of the subject: about as many as a layer multiplies."""
    return reduce(mul, (subject(key).cast(pl.Float64) for key in keys))


_CMDARE = "res15", "res32", "shakesmall", "shakebig"
_SIA = "bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"
_CONVOLUTION = "tf_ops_convolution"
_DENSE = "tf_ops_dense"
_LARGE_CONVOLUTION, _LARGE_PRODUCT = 3.3e9, 1.7e8
"""Multiplications that a fifth of the layers of each kind exceeds."""
_EVERY_FIFTH = pl.col("row_number") % 5 == 0
_SIDE = subject("image_size").cast(pl.Float64) / subject("stride").cast(pl.Float64)
_OF_CONVOLUTION = _SIDE**2 * _multiplications(
    "batch_size", "kernel_size", "kernel_size", "channels_in", "channels_out"
)
_OF_DENSE = _multiplications("batch_size", "size_in", "size_out")
PUBLIC_SETS = (
    PublicSet(
        "async_ps_cmdare",
        "async_ps_cmdare",
        "throughput_steps_per_s",
        "1/s",
        subject("world_size") == "1",
        (Contender("linear", "1", public_rates.fit_linear_rates("dnn", "node_type", "servers")),),
    ),
    *(_asynchronous_without(dnn) for dnn in _CMDARE),
    PublicSet(
        "ddp_step_time_sia",
        "ddp_step_time_sia",
        "step_time_s",
        "s",
        subject("nodes") == "1",
        (Contender("linear", "1", public_rates.fit_step_times),),
    ),
    *(_placements_without(dnn) for dnn in _SIA),
    *(_allreduces_without(nodes) for nodes in (2, 8, 256)),
    *(_steps_without(dnn) for dnn in public_files.PARAMETERS),
    *(_families_without(letters) for letters in ("abc", "defgh", "ijklm", "nopqr", "stuvwxyz")),
    *(_sums_without(family) for family in ("BERT", "GPT-2", "OPT")),
    _layers(_CONVOLUTION, "every_fifth", ~_EVERY_FIFTH),
    _layers(_CONVOLUTION, "large", _OF_CONVOLUTION < _LARGE_CONVOLUTION),
    _layers(_DENSE, "every_fifth", ~_EVERY_FIFTH),
    _layers(_DENSE, "large", _OF_DENSE < _LARGE_PRODUCT),
)
