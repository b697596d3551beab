"""The program that traces a user's own model, in a process that imports nothing of ours.

`python -P own_program.py JSON` writes what it found as a line of JSON. Users have packages of the
names of ours, so files of this folder are loaded by their paths, under names that no user has.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
        with _ours(_NEEDED.get(name)):
            spec.loader.exec_module(module)
    return sys.modules[known]


_MOST_OPERATORS = 20_000
"""Of a training step: cells in a loop over a sequence have ten thousands, which take minutes."""
_NEEDED = dict.fromkeys(("traced", "traced_step", "own_check"), "operator_work")
"""What files import of this folder, as `networks.…`."""


@contextmanager
def _ours(name: str | None) -> Iterator[None]:
    """Have a file of this folder found as a module of `networks`, whatever users call theirs."""
    if name is None:
        yield
        return
    known = f"networks.{name}"
    users_module = sys.modules.get(known)
    sys.modules[known] = _beside(name)
    try:
        yield
    finally:
        del sys.modules[known]
        if users_module is not None:
            sys.modules[known] = users_module


def _traced(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the graph of what a target makes, and its training steps at batches.

    Raises:
        ValueError: it makes nothing that has one.
    """
    target, batch_sizes = request["target"], request["batch_sizes"]
    precisions = request["gpu_precisions"]
    if target.startswith(_beside("own_huggingface").PREFIX):
        return _of_huggingface(target, batch_sizes, request["folders"][0], precisions)
    function = _beside("own_function")
    made = function.call_function(target, batch_sizes[0], request["folders"], request["hidden"])
    model = made[0] if isinstance(made, tuple) and made else made
    keras = _beside("own_keras")
    if keras.is_model(model):
        return _of_keras(keras.trace_model(made, target, batch_sizes), target, Path(request["out"]))
    return of_torch(made, target, batch_sizes, fake_tensors(), precisions)


def _of_keras(traced: Mapping[str, Any], target: str, out: Path) -> dict[str, Any]:
    """Return the name of a Keras model, and the files of its steps.

    Raises:
        ValueError: no step could be traced.
    """
    graphs, steps = _beside("own_graph_def"), {}
    for size, step in traced["steps"].items():
        try:
            steps[size] = step if "error" in step else {"file": graphs.write_step(step, out / size)}
        except ValueError as error:
            steps[size] = {"error": str(error)}
    errors = [step["error"] for step in steps.values() if "error" in step]
    if len(errors) == len(steps):
        raise ValueError(f"{target}: its training step cannot be traced: {errors[0]}")
    name = graphs.digest(traced["named"], traced["shapes"])
    about = {"image_size": traced["image_size"], "parameter_count": traced["parameter_count"]}
    return {"keras": name, **about, "steps": steps}


def _of_huggingface(
    target: str, batch_sizes: list[int], folder: str, precisions: list[str]
) -> dict[str, Any]:
    """Return the same of a config; its model is built without values, however large it is."""
    library, arguments = _beside("own_huggingface"), (target, batch_sizes[0], folder)
    mode = fake_tensors()
    try:
        with mode:
            made = library.from_config(*arguments)
    except RuntimeError:
        # Some ask for values while they are built.
        made = library.from_config(*arguments)
    return of_torch(made, target, batch_sizes, mode, precisions)


def fake_tensors() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def of_torch(
    made: object, target: str, batch_sizes: list[int], mode: Any, precisions: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the graph of a module, and its training steps; as GPUs see them at `precisions`.

    Raises:
        ValueError: it has no graph, or trains in a way that no forecast knows.
    """
    torch_, check = _beside("own_torch"), _beside("own_check")
    module, batch, by_name = torch_.split_module_and_batch(made, target)
    check.check_module(module, (*batch, *by_name.values()), target)
    first = (*batch, *by_name.values())[0]
    shape = first.shape
    has_words = len(shape) == 2 and not (first.is_floating_point() or first.is_complex())
    side = int(shape[-1]) if len(shape) == 4 else 0
    with mode:
        fakes = tuple(torch_.without_values(tensor, mode) for tensor in batch)
        named = {name: torch_.without_values(tensor, mode) for name, tensor in by_name.items()}
        given = (fakes, target, side, int(shape[0]), named)
        traced = _beside("traced").fields_of(module.train(), *given)
        torch_.forget_values(module, mode)
        watch = check.StepWatch(module)
        network = torch_.OwnNetwork(module, fakes, named)
        least, *others = dict.fromkeys(batch_sizes)
        with watch.watching():
            steps = {str(least): _step(network, least)}
        watch.check(target)
        steps.update({str(size): _step(network, size) for size in others})
        gpu_steps = {
            f"{size} {precision}": _gpu_step(network, size, precision)
            for size in dict.fromkeys(batch_sizes)
            for precision in precisions
        }
    return {
        "graph": traced.graph,
        "unknown_flops": traced.unknown_flops,
        "unmeasured": traced.unmeasured,
        "example": list(shape),
        "sequence_length": int(shape[1]) if has_words else None,
        "steps": steps,
        "gpu_steps": gpu_steps,
    }


def _gpu_step(network: Any, batch_size: int, precision: str) -> dict[str, Any]:
    """Return what a GPU is asked for in a training step, or why nobody knows."""
    import torch

    batch = network.draw(batch_size), torch.zeros(batch_size, dtype=torch.int64)
    try:
        step: dict[str, Any] = _beside("gpu_trace").trace_step(
            network, *batch, precision, _MOST_OPERATORS
        )
    except Exception as error:
        return {"error": _reason(error)}
    return step


def _step(network: Any, batch_size: int) -> dict[str, Any]:
    """Return the operators of a training step, or why there are none; graphs do without."""
    import torch

    batch = network.draw(batch_size), torch.zeros(batch_size, dtype=torch.int64)
    try:
        operations, _ = _beside("traced_step").record_step(network, *batch, _MOST_OPERATORS)
    except Exception as error:
        return {"error": _reason(error)}
    return {"operations": operations}


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


if __name__ == "__main__":
    main()
