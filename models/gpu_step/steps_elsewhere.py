"""Steps that others measured of networks whose operators nobody timed there: they judge.

Transformers of milabench never zero their gradients: each of theirs is added to, and all are there
from the start. Steps of Qwen are of eight passes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from models.gpu_step.channels_last import in_channels_last
from models.gpu_step.device import devices
from models.gpu_step.measurements import MeasuredStep, Speedup
from models.gpu_step.operators import work_of
from models.gpu_step.public_rows import RowsBySet, by_subject, traces_of
from models.gpu_step.step import StepWork, step_work
from networks.gpu_steps import GpuStep, Operator
from warehouse.records import Optimizer, Precision


class _Benchmark(NamedTuple):
    """What a benchmark of milabench trains: size and precision of its trace, how it is trained."""

    network: str
    size: int
    traced: str
    precision: Precision
    optimizer: Optimizer
    zeroes: bool = True
    memory_format: str = "contiguous"
    sample_bytes: float = 0.0


_PAGEABLE_BPS = 2.33e9
"""Of 400 MB that `Tensor.to("cuda")` copies from memory that is not pinned, in 0.172 s
(chunhuizhang/pytorch_distribute_tutorials). Loaders of transformers' benchmarks pin nothing."""
_BERT = ("bert_base", 512)
_CONVNEXT = ("convnext_large", 224)
_BENCHMARKS: Mapping[str, _Benchmark] = {
    "bert-fp32": _Benchmark(*_BERT, "float32", "float32", "adam", False),
    "bert-tf32": _Benchmark(*_BERT, "float32", "tf32", "adam", False),
    "bert-fp16": _Benchmark(*_BERT, "float16", "float16", "adam", False),
    "bert-tf32-fp16": _Benchmark(*_BERT, "float16", "float16", "adam", False),
    "convnext_large-fp32": _Benchmark(*_CONVNEXT, "float32", "float32", "sgd"),
    "convnext_large-tf32": _Benchmark(*_CONVNEXT, "float32", "tf32", "sgd"),
    "convnext_large-fp16": _Benchmark(*_CONVNEXT, "float16", "float16", "sgd"),
    "convnext_large-tf32-fp16": _Benchmark(*_CONVNEXT, "float16", "float16", "sgd"),
    "regnet_y_128gf": _Benchmark("regnet_y_128gf", 224, "float16", "float16", "sgd"),
    "resnet50-noio": _Benchmark(
        "resnet50b", 244, "float16", "float16", "sgd", memory_format="channels_last"
    ),
    "lightning": _Benchmark("resnet152b", 224, "bfloat16", "bfloat16", "adam"),
    "t5": _Benchmark("t5_small", 1024, "float16", "float16", "adam", False),
    "reformer": _Benchmark("reformer", 4096, "float16", "float16", "adam", False),
    "whisper": _Benchmark(
        "whisper_tiny", 3000, "float16", "float16", "adam", False, sample_bytes=4.0 * 80 * 3000
    ),
}


def milabench_steps(rows: RowsBySet) -> Iterator[MeasuredStep]:
    """Yield steps on an H100; repeats with more workers that load data are steps of their own."""
    traces = traces_of(rows["milabench", "traces"])
    keys = ("benchmark", "batch", "loader_workers", "device")
    table = by_subject(rows["milabench", "steps"], *keys)
    repeats: dict[tuple[str, int], list[float]] = {}
    for (name, batch, *_), metrics in table.items():
        repeats.setdefault((name, batch), []).append(1e6 * batch / metrics["samples_per_s"])
    for (name, batch, _, device), metrics in table.items():
        how = _BENCHMARKS[name]
        trace = traces.get((how.network, how.size, batch, how.traced))
        if trace is None:
            continue
        work = step_work(trace, how.optimizer, how.precision)
        if how.memory_format == "channels_last":
            work = in_channels_last(work)
        yield MeasuredStep(
            network=name,
            family=how.network.partition("_")[0],
            size=how.size,
            batch=batch,
            precision=how.precision,
            optimizer=how.optimizer,
            memory_format=how.memory_format,
            device=devices()[device],
            work=work if how.zeroes else _added_to(work, trace),
            trace=trace,
            step_us=1e6 * batch / metrics["samples_per_s"],
            synchronised_us=median(repeats[name, batch]),
            source="milabench",
            shown_bytes=int(metrics["shown_memory_bytes"]),
            accumulate=1 if how.zeroes else 2,
            copied_us=1e6 * batch * how.sample_bytes / _PAGEABLE_BPS,
        )


def _added_to(work: StepWork, trace: GpuStep) -> StepWork:
    """Return a step whose gradients are added to those of the steps before."""
    added = [work_of(Operator("add_", (each, each), ())) for each in trace.parameters]
    places = len(work.works) + np.arange(len(added))
    return replace(work, works=(*work.works, *added), order=np.concatenate([work.order, places]))


_RANK = 64
_PROJECTIONS = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
_LORA = f"?lora={_RANK}?lora_targets={_PROJECTIONS}?weights=bfloat16"


def _as_fine_tuned(trace: GpuStep) -> GpuStep:
    """Return a step whose adapters are in bfloat16, as their layers are: Qwen asks for peft < 0.8.

    Casts of adapters, and of what they are given, are within two calls of each other. For each cast
    of what one is given, and of its gradient, Qwen's `finetune.py` has dropout.
    """
    order, known = np.array(trace.order), len(trace.operators)
    is_cast = np.array([each.name == "_to_copy" for each in trace.operators])[order]
    of_adapter = [any(_RANK in given.shape for given in each.inputs) for each in trace.operators]
    near = is_cast & (np.convolve(is_cast & np.array(of_adapter)[order], np.ones(5), "same") > 0)
    casts = [(number, trace.operators[number]) for number in np.unique(order[near]).tolist()]
    dropouts = {
        number: Operator(
            "native_dropout", each.inputs, (*each.inputs, replace(each.inputs[0], dtype="bool"))
        )
        for number, each in casts
        if len(each.inputs[0].shape) > 2 and each.outputs[0].dtype == "float32"
    }
    places = np.full(known, -1)
    places[[*dropouts]] = known + np.arange(len(dropouts))
    ran = np.where(near, places[order], order)
    operators = (*trace.operators, *dropouts.values())
    return replace(trace, operators=operators, order=tuple(ran[ran >= 0].tolist()))


def _as_one_layer(work: StepWork) -> StepWork:
    """Return work in which the host issues one layer and one adapter for queries, keys and values.

    Qwen has them so (`c_attn`); in the trace they are three that follow each other, of which the
    GPU takes about as long. Those of keys and queries follow a copy backward.
    """
    names = np.array([each.name for each in work.works])[work.order]
    issued = np.ones(len(names), bool)
    for _, key, value in np.flatnonzero(names == "addmm").reshape(-1, 3):
        issued[key - 2 : 2 * value - key - 2] = False
    copies = np.flatnonzero((names[:-1] == "copy") & (names[1:] == "_unsafe_view"))
    for key, query in copies.reshape(-1, 2):
        issued[key + 2 : query - 1] = issued[query + 2 : 2 * query - key - 1] = False
    return replace(work, issued=issued)


def qwen_steps(rows: RowsBySet) -> Iterator[MeasuredStep]:
    """Yield fine-tuning on an A100, activations computed again."""
    traces = traces_of(rows["qwen", "traces"])
    keys = ("network", "method", "sequence_length", "accumulate", "device")
    for subject, metrics in by_subject(rows["qwen", "finetune"], *keys).items():
        name, method, words, accumulate, device = subject
        is_lora = method == "lora"
        how = f"{_LORA if is_lora else ''}?checkpointed=1"
        trace = traces.get((name + how, words, 1, "bfloat16"))
        if trace is None:
            continue
        ran = _as_fine_tuned(trace) if is_lora else trace
        work = step_work(ran, "adamw", "bfloat16", accumulate)
        yield MeasuredStep(
            network=f"{name} {method}",
            family="qwen",
            size=words,
            batch=1,
            precision="bfloat16",
            optimizer="adamw",
            device=devices()[device],
            work=_as_one_layer(work) if is_lora else work,
            trace=trace,
            step_us=1e6 * metrics["step_s"],
            source="qwen",
            shown_bytes=int(metrics["shown_memory_bytes"]),
            accumulate=accumulate,
            is_plain=is_lora,
        )


def internevo_speedups(rows: RowsBySet) -> Iterator[Speedup]:
    """Yield how many times as many tokens pass where activations are computed again."""
    traces = traces_of(rows["internevo", "traces"])
    by_gpus: dict[int, dict[str, tuple[float, Any]]] = {}
    for row in rows["internevo", "throughput"]:
        if row["batch"] * row["accumulate"] != 8:
            continue
        is_kept = str(row["checkpointed"]).lower() == "false"
        by_gpus.setdefault(row["gpus"], {})["kept" if is_kept else "again"] = (row["value"], row)
    for gpus, both in sorted(by_gpus.items()):
        passes = []
        for what, how in (("kept", ""), ("again", "?checkpointed=1")):
            if what not in both:
                continue
            batch = both[what][1]["batch"]
            trace = traces.get(("internlm_7b?weights=bfloat16" + how, 2048, batch, "bfloat16"))
            if trace is not None:
                passes.append((step_work(trace, None, "bfloat16"), batch))
        if len(passes) == 2:
            device = devices()[both["kept"][1]["device"]]
            measured = both["again"][0] / both["kept"][0]
            yield Speedup(f"internlm_7b on {gpus}", device, passes[0], passes[1], measured)
