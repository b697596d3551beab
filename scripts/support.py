"""Write pipelines/support.csv: which types of models of Hugging Face are answered, and why not.

Usage: python scripts/support.py [TYPE…]; without types, all of the installed transformers. A row
is added, or replaced, as soon as its type has been asked; `--missing` asks those that have none,
and `--print` writes rows to standard output instead.

Each type is asked as `hf:TYPE` with the defaults of its config, and at most `LAYERS` layers of each
kind, at a batch of two, in a child process of its own with bounds of time and memory. Children are
forked from a process that has imported the libraries once.
"""

import csv
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from pipelines.support import TABLE, Support, supported

LAYERS = 4
"""Of each kind that a config may have at most: a model's further layers are like its first."""
BATCH_SIZE = 2
CPU_S, MEMORY_BYTES = 20, 8 << 30
"""Of a child; where a step takes longer, it is told so."""
_MANY = 5_000
"""Operators of a step of few layers; with all, it may have more than can be traced."""
_ALONE = "of parameters alone"
_NO_MODEL = ("is without a head", "its config makes no model")


def ask(types: Sequence[str]) -> Iterator[Support]:
    """Yield what is answered about types, each in a child process."""
    program = _program()
    for model_type in types:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            _in_child(model_type, write, program)
        os.close(write)
        with os.fdopen(read) as file:
            text = file.read()
        os.waitpid(child, 0)
        ended = {"reason": f"nothing came of it in {CPU_S} s of a processor and 8 GiB"}
        yield Support(type=model_type, **(json.loads(text) if text else ended))


def _program() -> Any:
    """Return the program that traces models, with all that it imports."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    import torch._decomp
    import transformers
    import transformers.pipelines

    from networks import own_program as program

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in (
        *("known_values", "own_torch", "own_check", "own_function", "traced", "traced_step"),
        *("gpu_trace", "own_huggingface", "own_keras"),
    ):
        program._beside(name)  # noqa: SLF001
    with program.fake_tensors(makes_up=True):
        transformers.BertModel(transformers.BertConfig(num_hidden_layers=1))
    return program


def _in_child(model_type: str, write: int, program: Any) -> None:
    """Write what is answered about a type, as JSON, and end."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    signal.alarm(30 * CPU_S)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        answer = _asked(model_type, program)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        answer = {"reason": f"{type(error).__name__}: {lines[0]:.200}"}
    os.write(write, json.dumps(answer).encode())
    os._exit(0)


def _asked(model_type: str, program: Any, most_layers: int | None = LAYERS) -> dict[str, Any]:
    """Return the fields of `Support` of a type; of its whole config where fewer layers fail."""
    started = time.process_time()
    hugging, target = program._beside("own_huggingface"), f"hf:{model_type}"  # noqa: SLF001
    known: dict[str, Any] = {}
    refused = None
    with (
        _few_layers(hugging, known, most_layers),
        _counting(program._beside("gpu_trace"), known),  # noqa: SLF001
        _gpu_alone(program),
    ):
        try:
            traced = program._traced(  # noqa: SLF001
                {
                    "target": target,
                    "batch_sizes": [BATCH_SIZE],
                    "gpu_precisions": ["float32"],
                    "folders": [os.curdir],
                    "hidden": [],
                }
            )
        except ValueError as error:
            refused = str(error).removeprefix(f"{target}: ").removesuffix(program.HINT)
    if refused is not None:
        if most_layers is not None and known.get("layers") != "default":
            return _asked(model_type, program, None)
        is_model = not any(words in refused for words in _NO_MODEL)
        return {"model": is_model, "reason": refused, **_public(known)}
    step = traced["gpu_steps"][f"{BATCH_SIZE} float32"]
    fields = {"trained": traced["trained_class"], **_public(known)}
    fields["seconds"] = round(time.process_time() - started, 1)
    if "error" in step:
        return {**fields, "reason": step["error"]}
    work = [step["operators"][number] for number in step["order"]]
    if most_layers is not None and known["layers"] != "default" and len(work) > _MANY:
        return _asked(model_type, program, None)
    total = sum(flops or 0.0 for *_, flops, _ in work)
    unknown = sum(flops or 0.0 for *_, flops, is_unknown in work if is_unknown)
    graph = traced["graph"]["nodes"]
    # Products of parameters alone are counted, though not for each image.
    unknown_flops = traced["unknown_flops"].items()
    forward = sum(flops for name, flops in unknown_flops if not name.endswith(_ALONE))
    whole = forward + sum(node["flops"] + node["output_elements"] for node in graph)
    return {
        **fields,
        "operators": len(work),
        "uncounted": max(unknown / max(total, 1.0), forward / max(whole, 1.0)),
        "deviation": _deviation(work, known["counted"]),
    }


def _public(known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: known[name] for name in ("inputs", "layers") if name in known}


def _deviation(work: Sequence[Sequence[Any]], counted: Mapping[str, float]) -> float:
    """Return by how much counted work differs from PyTorch's, of operators that this counts.

    Attention is left out: causal attention does half of what PyTorch counts.
    """
    ours = dict.fromkeys(counted, 0.0)
    for name, *_, flops, _ in work:
        if name in ours:
            ours[name] += flops or 0.0
    total = sum(counted.values())
    return sum(abs(ours[name] - counted[name]) for name in counted) / total if total else 0.0


@contextmanager
def _counting(gpu_trace: Any, known: dict[str, Any]) -> Iterator[None]:
    """Count the first traced step with PyTorch's `FlopCounterMode`, too."""
    from torch import ops
    from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

    def convolution_backward(
        slope: Any, given: Any, weight: Any, *settings: Any, out_shape: Any, **_: Any
    ) -> int:
        # PyTorch takes groups for one; each gradient is as much as the convolution.
        transposed, wanted = settings[4], settings[7]
        return sum(wanted[:2]) * conv_flop_count(given, weight, slope, transposed)

    trace = gpu_trace.trace_step

    def traced(*args: Any, **kwargs: Any) -> Any:
        if "counted" in known:
            return trace(*args, **kwargs)
        own = {ops.aten.convolution_backward: convolution_backward}
        with FlopCounterMode(display=False, custom_mapping=own) as counter:
            step = trace(*args, **kwargs)
        counts = counter.get_flop_counts().get("Global", {})
        named = {str(packet).removeprefix("aten."): count for packet, count in counts.items()}
        known["counted"] = {name: count for name, count in named.items() if "attention" not in name}
        return step

    gpu_trace.trace_step = traced
    try:
        yield
    finally:
        gpu_trace.trace_step = trace


@contextmanager
def _gpu_alone(program: Any) -> Iterator[None]:
    """Trace no step of processors nor in half precision: they have the same operators."""
    step, named_in = program._step, program._NAMED_IN  # noqa: SLF001

    def forward(network: Any, batch_size: int, *, is_timed: bool) -> Any:
        return step(network, batch_size, is_timed=False)

    program._step, program._NAMED_IN = forward, named_in[:1]  # noqa: SLF001
    try:
        yield
    finally:
        program._step, program._NAMED_IN = step, named_in  # noqa: SLF001


@contextmanager
def _few_layers(hugging: Any, known: dict[str, Any], most: int | None) -> Iterator[None]:
    """Have configs of types with few layers."""
    configured, batched = hugging._config, hugging._batch  # noqa: SLF001

    def config_of(*args: Any) -> Any:
        config = configured(*args)
        shortened = most is not None and shorten(config, most)
        known["layers"] = f"at most {most}" if shortened else "default"
        return config

    def batch(*args: Any) -> Any:
        made = batched(*args)
        known["inputs"] = " ".join(made)
        return made

    hugging._config, hugging._batch = config_of, batch  # noqa: SLF001
    try:
        yield
    finally:
        hugging._config, hugging._batch = configured, batched  # noqa: SLF001


def shorten(config: Any, most: int = LAYERS) -> bool:
    """Let a config and those in it have so many layers at most; tell whether any had more."""
    from transformers import PretrainedConfig

    shortened = False
    for name, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            shortened |= shorten(value, most)
        elif type(value) is int and value > most and _counts_layers(name):
            setattr(config, name, most)
            shortened = True
            for other, each in list(vars(config).items()):
                if isinstance(each, list) and len(each) == value:
                    setattr(config, other, each[:most])
    return shortened


def _counts_layers(name: str) -> bool:
    named = "layers" in name or name in ("n_layer", "n_layers", "depth")
    return named and not any(other in name for other in ("position", "group", "feature"))


def write(rows: Iterable[Support], file: TextIO) -> None:
    """Write a table of rows."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(Support.model_fields)
    writer.writerows(row.cells() for row in rows)


def main(arguments: Sequence[str]) -> None:
    """Ask types, and write what is answered."""
    from transformers import CONFIG_MAPPING

    options = {argument for argument in arguments if argument.startswith("--")}
    types = [argument for argument in arguments if argument not in options]
    types = types or sorted(CONFIG_MAPPING.keys())
    if "--print" in options:
        write(ask(types), sys.stdout)
        return
    rows = dict(supported()) if TABLE.exists() else {}
    if "--missing" in options:
        types = [model_type for model_type in types if model_type not in rows]
    for row in ask(types):
        rows[row.type] = row
        with TABLE.open("w", newline="") as file:
            write((rows[model_type] for model_type in sorted(rows)), file)
        sys.stdout.write(f"{row.type}: {'answered' if row.is_answered else row.reason}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
