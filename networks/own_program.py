"""The program that traces a user's own model, in a process that imports nothing of ours.

`python -P own_program.py JSON` writes what it found as a line of JSON. Users have packages of the
names of ours, so files of this folder are loaded by their paths, under names that no user has.
"""

import atexit
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any


def _beside(name: str) -> ModuleType:
    """Load a file of this folder under a name that no user has."""
    known = f"_stepcast_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        with _ours(_NEEDED.get(name, ())):
            spec.loader.exec_module(module)
    return sys.modules[known]


_MOST = 50_000
"""Of a training step: cells in a loop over a sequence have ten thousands, which take minutes."""
HINT = "; `stepcast support` lists what is answered"
"""Ends why a type of model has no answer."""
_NAMED_AT, _NAMED_IN = 2, ("float32", "bfloat16")
"""Batch and precisions of the steps that tell a model from another."""
_NEEDED = {
    "operator_work": ("operator_recorder",),
    **dict.fromkeys(("traced_step", "own_check"), ("operator_recorder", "operator_work")),
    "traced": ("operator_recorder", "operator_work", "own_function"),
    "gpu_recorder": ("batch_scaling", "known_values", "operator_recorder", "operator_work"),
    "gpu_trace": ("gpu_recorder", "operator_recorder", "operator_work", "own_torch"),
    "own_huggingface": ("own_batch",),
    "own_keras": ("own_function",),
}
"""What files import of this folder, as `networks.…`."""


@contextmanager
def _ours(names: Sequence[str]) -> Iterator[None]:
    """Have files of this folder found as modules of `networks`, whatever users call theirs."""
    ours = {f"networks.{name}": _beside(name) for name in names}
    users_modules = {known: sys.modules[known] for known in ours if known in sys.modules}
    sys.modules.update(ours)
    try:
        yield
    finally:
        for known in ours:
            del sys.modules[known]
        sys.modules.update(users_modules)


def _traced(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the graph of what a target makes, and its training steps at batches.

    Raises:
        ValueError: it makes nothing that has one.
    """
    target, batch_sizes = request["target"], request["batch_sizes"]
    precisions = request["gpu_precisions"]
    folders, is_config = request["folders"], target.startswith(_beside("own_huggingface").PREFIX)
    mode = fake_tensors(makes_up=is_config)
    if is_config:

        def of_config(size: int) -> Any:
            return _beside("own_huggingface").from_config(target, size, folders[0])

        made = without_values(of_config, batch_sizes[0], mode)
        try:
            traced = of_torch(made, target, batch_sizes, mode, precisions, of_config)
        except ValueError as error:
            raise ValueError(f"{error}{HINT}") from None
        return {**traced, "trained_class": _beside("own_huggingface").class_in_words(made[0])}
    function = _beside("own_function").UserFunction(target, folders, request["hidden"])
    made = without_values(function, batch_sizes[0], mode)
    model = made[0] if isinstance(made, tuple) and made else made
    again = function if function.takes_batch else None
    keras = _beside("own_keras")
    if keras.is_model(model):
        of_keras: dict[str, Any] = keras.trace_model(
            made, target, batch_sizes, again, Path(request["out"])
        )
        return of_keras
    return of_torch(made, target, batch_sizes, mode, precisions, again)


def fake_tensors(*, makes_up: bool = False) -> Any:
    return _beside("known_values").KnownValues(makes_up=makes_up)


def without_values(make: Callable[[int], Any], batch_size: int, mode: Any) -> Any:
    """Return what makes a model and its batch, without values however large it is, if it can be."""
    try:
        with mode, _beside("own_torch").building_without_values():
            return make(batch_size)
    except _beside("own_huggingface").RefusedConfig:
        raise
    except Exception:
        # Some ask for values while they are built.
        return make(batch_size)


def of_torch(
    made: object,
    target: str,
    batch_sizes: list[int],
    mode: Any,
    precisions: Sequence[str] = (),
    make: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Return the graph of a module, and its training steps; as GPUs see them at `precisions`.

    Args:
        made: the module and its batch, as the user's function made them for the first size.
        target: the function.
        batch_sizes: of the steps.
        mode: of tensors without values.
        precisions: of autocast.
        make: the function; None: it is not told the batch.

    Raises:
        ValueError: it has no graph, or trains in a way that no forecast knows.
    """
    torch_, check, function = map(_beside, ("own_torch", "own_check", "own_function"))
    size, *others = dict.fromkeys(batch_sizes)

    def split(batch_size: int) -> Any:
        again = make or (lambda _: made)
        return torch_.split_module_and_batch(without_values(again, batch_size, mode), target)

    module, batch, by_name = torch_.split_module_and_batch(made, target)
    weights_bytes = torch_.real_bytes(module)
    inputs = [*batch, *by_name.values()]
    check.check_module(module, inputs, target)
    # A graph has its name of the step of so few samples, whatever batch is asked about.
    named_at = _NAMED_AT if make is not None else size
    another = None if make is None else split(named_at if named_at != size else size + 1)
    at_another = [] if another is None else [*another[1], *another[2].values()]
    place = function.batch_dimension(inputs, at_another, size, target)
    for other in others if make is None else ():
        function.batch_dimension(inputs, (), other, target)
    shape = [length for at, length in enumerate(inputs[0].shape) if at != place]
    has_words = len(shape) == 1 and not (inputs[0].is_floating_point() or inputs[0].is_complex())
    side = int(shape[-1]) if len(shape) == 3 else 0
    with mode:
        fakes = tuple(torch_.without_values(tensor, mode) for tensor in batch)
        named = {name: torch_.without_values(tensor, mode) for name, tensor in by_name.items()}
        networks = {size: torch_.network_without_values(module, fakes, named, mode)}
        traced = _beside("traced").fields_of(module, fakes, target, side, size, named)
        watch = check.StepWatch(module)
        try:
            with watch.watching():
                steps = {str(size): _step(networks[size], size, is_timed=not watch.altered)}
            watch.check(target)
            if another is not None and named_at != size:
                networks[named_at] = torch_.network_without_values(*another, mode)
            for other in others:
                if other not in networks:
                    networks[other] = torch_.network_without_values(*split(other), mode)
                steps[str(other)] = _step(networks[other], other, is_timed=not watch.altered)
            half = torch_.trained_in_half(module)
            as_traced = dict.fromkeys(precisions if half is None else [half] if precisions else [])
            checkpointed = check.CHECKPOINTED in watch.altered
            gpu_steps = {
                f"{size} {precision}": _gpu_step(networks[size], size, precision, checkpointed)
                for size in dict.fromkeys(batch_sizes)
                for precision in as_traced
            }
            if half is not None:
                gpu_steps |= {f"{name}-true": step for name, step in gpu_steps.items()}
            named_in = _NAMED_IN if not watch.altered else (half or _NAMED_IN[-1],)

            def step_at(batch: int, kind: str) -> dict[str, Any]:
                known = gpu_steps.get(f"{batch} {kind}")
                return known or _gpu_step(networks[batch], batch, kind)

            asked = [step_at(named_at, kind) for kind in named_in]
            if any("error" in step for step in asked):  # some take no batch of two
                asked = [step_at(size, kind) for kind in named_in]
        except torch_.NothingTrained as error:
            watch.check(target)
            raise ValueError(f"{target}: {error}") from None
    return {
        "graph": traced.graph,
        "step_digest": _digest(steps[str(size)], asked),
        "unknown_flops": traced.unknown_flops,
        "unmeasured": traced.unmeasured,
        "altered": list(watch.altered),
        "half": half or "",
        "weights_bytes": weights_bytes,
        "frozen_count": sum(each.numel() for each in module.parameters() if not each.requires_grad),
        "sample": shape,
        "sequence_length": shape[0] if has_words else None,
        "not_batched": function.not_batched(batch, by_name, size),
        "steps": steps,
        "gpu_steps": gpu_steps,
    }


def _digest(step: Mapping[str, Any], gpu_steps: Sequence[Mapping[str, Any]]) -> str:
    """Return a hash of the operators that processors and GPUs are asked for in a step."""
    of_gpus = [gpu_step.get("digest") for gpu_step in gpu_steps]
    of_processors = [operation["type"] for operation in step.get("operations", ())]
    return sha256(json.dumps([of_gpus, of_processors]).encode()).hexdigest()


def _gpu_step(
    network: Any, batch_size: int, precision: str, checkpointed: bool = False
) -> dict[str, Any]:
    """Return what a GPU is asked for in a training step, or why nobody knows.

    One that is checkpointed is traced with its activations kept, too.
    """
    trace = _beside("gpu_trace").trace_step

    def traced(*batch: Any) -> dict[str, Any]:
        step: dict[str, Any] = trace(network, *batch, precision, _MOST)
        if checkpointed:
            step["kept"] = trace(network, *batch, precision, _MOST, keeps_activations=True)
        return step

    return _traced_or_why(traced, network, batch_size)


def _step(network: Any, batch_size: int, *, is_timed: bool) -> dict[str, Any]:
    """Return the operators of a training step, or why there are none; graphs do without.

    Args:
        network: that is trained.
        batch_size: of the step.
        is_timed: processors were timed on steps like it; of others the forward pass alone is run.
    """
    record = _beside("traced_step").record_step

    def recorded(*batch: Any) -> dict[str, Any]:
        if is_timed:
            return {"operations": record(network, *batch, _MOST)}
        network(batch[0])
        return {"error": "no network that was measured on a processor trains like it"}

    return _traced_or_why(recorded, network, batch_size)


def _traced_or_why(
    trace: Callable[..., dict[str, Any]], network: Any, batch_size: int
) -> dict[str, Any]:
    import torch

    try:
        return trace(network.draw(batch_size), torch.zeros(batch_size, dtype=torch.int64))
    except _beside("own_torch").NothingTrained:
        raise
    except Exception as error:
        return {"error": _reason(error)}


def _reason(error: Exception) -> str:
    """Return why a step cannot be traced; what tracing says itself needs no name of an error."""
    reason = str(error)
    is_ours = isinstance(error, ValueError) and reason.startswith("its training step")
    return reason if is_ours else str(_beside("own_function").first_line(error))


def main() -> None:
    """Write the graph, or why there is none, as a line of JSON; what users print goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    reads = _beside("own_reads").Reads()
    try:
        traced = _traced(json.loads(sys.argv[1]))
        traced["reads"] = reads.stamps
    except ValueError as error:
        traced = {"error": str(error)}
    out.write(json.dumps(traced) + "\n")
    out.flush()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stderr.flush()
    os._exit(0)  # an interpreter that has PyTorch takes a second to close down
