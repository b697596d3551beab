"""A user's own model, traced in a child process that imports nothing of ours."""

import atexit
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from networks.batch_scaling import FEWEST, steps_at
from networks.catalogue import OWN
from networks.gpu_steps import GpuStep
from networks.kept_graphs import child_process, keep, kept, kept_names
from networks.operation_graph import GraphOperation, OperationGraph
from networks.own_huggingface import PREFIX
from networks.own_reads import are_unchanged, surroundings
from networks.primitives import PrimitiveGraph
from warehouse.child_process import most_memory_bytes
from warehouse.durable_files import temporary
from warehouse.home import home

_PROGRAM = Path(__file__).with_name("own_program.py")
_TARGET = "target-"
"""How what names the function of a kept graph begins."""
_TIMEOUT_S = 300.0
_MOST_BYTES = 256 << 20
_MOST_BATCHES = 8
"""Of a config, whose steps are kept together; further ones take the place of all."""


MOST_UNKNOWN = 0.05
"""Part of a model's work that operators of unknown work may have. Where these run as fast as the
others, a forecast is off by no more than that, a third of what forecasts of unseen networks are."""


class NoGraph(ValueError):
    """A model of a user has no graph; the message says why and what to do."""


@dataclass(frozen=True)
class OwnModel:
    """What is known of a user's model; equal steps have equal names.

    Attributes:
        dnn: its name, a hash of the graph and of all that a training step asks a GPU for.
        framework: `pytorch` or `tensorflow`.
        image_size: side of its images, pixels; 0 if it takes none.
        parameter_count: all that are trained.
        graph: primitives of its forward pass, of PyTorch's models.
        steps: what a training step computes, by batch: its operators, the file of a traced step of
            Keras (`networks.own_step`), or why nobody knows.
        sample: shape of a sample, of the first tensor of its batch; empty of Keras's models.
        not_batched: inputs whose first dimension is not the batch, with their shapes.
        trained_class: of a model of Hugging Face, perhaps `(no head)`; empty of others.
        sequence_length: words of a sample; None: the first tensor of its batch holds none.
        unknown_work: by operator, the part of all work that those of unknown work have at most.
        unmeasured: operators counted by formulas that no network of ours has.
        altered: how its training differs from that of networks that systems learn from.
        half: the half precision in which all of its trained parameters are; empty: in none.
        weights_bytes: of the parameters with which it was built, as it could not be without.
        frozen_count: parameters that are not trained, of PyTorch's models.
        gpu_steps: by batch and precision ("8 bfloat16-true"), or why nobody knows.
        source: the module:function that builds it, and the folder that has it, where it is known.
        traced: what the child process wrote, of which `model_of` makes it again; not of Keras's.
    """

    dnn: str
    framework: str
    image_size: int
    parameter_count: int
    graph: PrimitiveGraph | None
    steps: Mapping[int, OperationGraph | Path | str]
    sample: tuple[int, ...] = ()
    not_batched: tuple[str, ...] = ()
    trained_class: str = ""
    sequence_length: int | None = None
    unknown_work: Mapping[str, float] = field(default_factory=dict)
    unmeasured: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    half: str = ""
    weights_bytes: int = 0
    frozen_count: int = 0
    gpu_steps: Mapping[str, GpuStep | str] = field(default_factory=dict)
    source: tuple[str, str] | None = None
    traced: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def workload_fields(self) -> Mapping[str, Any]:
        """What it says itself of a workload that trains it, and options do not."""
        names = ("dnn", "framework", "image_size", "sequence_length")
        half = {"precision": self.half} if self.half else {}
        return {name: getattr(self, name) for name in names} | half

    @property
    def too_unknown(self) -> str:
        """Why its graph tells no forecast how much work it is; empty: it does."""
        if self.altered:
            return (
                f"{self.dnn}: it has {' and '.join(self.altered)}, which no network has that was "
                "measured here; gpu_step counts them"
            )
        most = sum(self.unknown_work.values())
        if most <= MOST_UNKNOWN:
            return ""
        parts = [(name, part) for name, part in self.unknown_work.items() if part >= 0.005]
        named = ", ".join(f"{name} ({100 * part:.0f} %)" for name, part in parts)
        return (
            f"{self.dnn}: operators of which nobody knows how much work they are have up to "
            f"{100 * most:.0f} % of all, and would count as nothing: {named}; systems that rest on "
            "measured passes of the model alone do without"
        )


def own_model(
    target: str, batch_sizes: Sequence[int], folder: Path, timeout_s: float = _TIMEOUT_S
) -> OwnModel:
    """Return what a user's function makes; see `tracing`.

    Raises:
        NoGraph: there is none; the message says why.
    """
    with tracing(target, batch_sizes, folder, timeout_s) as model:
        return model()


@contextmanager
def tracing(
    target: str,
    batch_sizes: Sequence[int],
    folder: Path,
    timeout_s: float = _TIMEOUT_S,
    gpu_precisions: Sequence[str] = (),
) -> Iterator[Callable[[], OwnModel]]:
    """Trace a user's model while the block does other things; yield what waits for the model.

    What waits raises `NoGraph` where there is none; the message says why. Nothing of the child
    process goes on after the block. A model of PyTorch needs no child process again as long as
    nothing is altered that its code read (`networks.own_reads`); of a config, other batches follow
    from those that were traced (`networks.batch_scaling`).

    Args:
        target: `package.module:function`. The function returns a torch.nn.Module and an example
            batch; it is given `batch_size`, if it takes such an argument.
        batch_sizes: images of a step on each device; the function is given the first.
        folder: from which its package is imported.
        timeout_s: after which what waits gives up, counted from when it begins to wait.
        gpu_precisions: of autocast, at which its step is traced as a GPU is asked for it.
    """
    request = {
        "target": target,
        "batch_sizes": list(batch_sizes),
        "folders": [str(folder)],
        "hidden": hidden_packages(),
        "gpu_precisions": list(gpu_precisions),
    }
    known_by = dict(request)
    if target.startswith(PREFIX):
        known_by["batch_sizes"] = []
        request["batch_sizes"] = list(dict.fromkeys([*batch_sizes, FEWEST]))
    name = OWN + sha256(json.dumps(known_by, sort_keys=True).encode()).hexdigest()[:32]
    surroundings_now = surroundings()
    before = kept(name) or {"reads": None}
    if before.get("surroundings") != surroundings_now or not are_unchanged(before["reads"]):
        before = {}
    elif (known := steps_at(before, batch_sizes)) is not None:
        yield lambda: model_of(target, known)
        return
    request["out"] = _folder()
    with child_process(
        [sys.executable, "-P", str(_PROGRAM), json.dumps(request)],
        timeout_s=timeout_s,
        memory_bytes=most_memory_bytes(),
        environment={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
        folder=folder,
        with_descendants=True,
        most_bytes=_MOST_BYTES,
    ) as ended:

        def model() -> OwnModel:
            traced = _read_output(target, timeout_s, *ended())
            if "graph" not in traced:
                return model_of(target, traced)
            if traced["reads"] is not None:
                if len(before.get("steps", ())) < _MOST_BATCHES:
                    for steps in ("steps", "gpu_steps"):
                        traced[steps] = {**before.get(steps, {}), **traced[steps]}
                keep(name, json.dumps({**traced, "surroundings": surroundings_now}))
                if not target.startswith(PREFIX):
                    keep(f"{_TARGET}{name}", json.dumps({"target": target, "folder": str(folder)}))
            return model_of(target, steps_at(traced, batch_sizes) or traced)

        yield model


def traced_targets(folder: Path) -> list[str]:
    """Return the functions whose models were traced from a folder, as they were named."""
    targets = [kept(name) or {} for name in kept_names(_TARGET)]
    here = {str(each.get("target")) for each in targets if each.get("folder") == str(folder)}
    return sorted(target for target in here if not target.startswith(PREFIX))


def model_of(target: str, traced: Mapping[str, Any]) -> OwnModel:
    """Return the model of what the child process wrote.

    Raises:
        NoGraph: there is none; the message says why.
    """
    if "error" in traced:
        raise NoGraph(traced["error"])
    told: dict[str, Any] = {
        each.name: tuple(value) if isinstance(value := traced[each.name], list) else value
        for each in fields(OwnModel)
        if each.name in traced.keys() - {"graph", "steps", "gpu_steps"}
    }
    if "keras" in traced:
        files = {
            int(size): Path(step["file"]) if "file" in step else str(step["error"])
            for size, step in traced["steps"].items()
        }
        return OwnModel(OWN + traced["keras"], "tensorflow", graph=None, steps=files, **told)
    try:
        graph = PrimitiveGraph.of(traced["graph"])
    except ValueError as error:
        raise NoGraph(f"{target}: its graph is none that systems read: {error}") from None
    graph = replace(graph, dnn=_name(graph, traced["step_digest"]))
    # Elements of results count as an operation each: models without products have work, too.
    unknown_flops = traced["unknown_flops"]
    everything = graph.flops + graph.activations + sum(unknown_flops.values())
    steps = {int(size): _step(graph, int(size), step) for size, step in traced["steps"].items()}
    return OwnModel(
        graph.dnn,
        "pytorch",
        graph.image_size,
        graph.parameter_count,
        graph,
        steps,
        **told,
        gpu_steps={
            name: str(step["error"]) if "error" in step else GpuStep.of(step)
            for name, step in traced["gpu_steps"].items()
        },
        unknown_work={name: flops / everything for name, flops in sorted(unknown_flops.items())},
        traced={name: traced[name] for name in traced.keys() - {"reads", "surroundings"}},
    )


def _name(graph: PrimitiveGraph, step_digest: str) -> str:
    fields = asdict(replace(graph, dnn="")), step_digest
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return OWN + sha256(text.encode()).hexdigest()[:8]


def _step(
    graph: PrimitiveGraph, batch_size: int, fields: Mapping[str, Any]
) -> OperationGraph | str:
    if "error" in fields:
        return str(fields["error"])
    operations = tuple(GraphOperation(**operation) for operation in fields["operations"])
    return OperationGraph(
        graph.dnn, batch_size, graph.image_size, graph.parameter_count, operations
    )


def _read_output(
    target: str, timeout_s: float, code: int | None, lines: list[bytes], last: str
) -> dict[str, Any]:
    """Return what the child process wrote.

    Raises:
        NoGraph: it wrote nothing, or not in time.
    """
    if code is None:
        raise NoGraph(
            f"{target}: nothing came of it in {timeout_s:g} s; let it build the model and "
            "return, without loading data or training"
        )
    try:
        traced = json.loads(lines[-1])
        if isinstance(traced, dict) and traced.keys() & {"graph", "keras", "error"}:
            return traced
    except (IndexError, ValueError):
        pass
    raise NoGraph(
        f"{target}: its process ended with exit code {code} before it returned: {last:.300}"
    )


def _folder() -> str:
    """Return a new folder of the home for traced steps, which lives as long as this process.

    Where the home cannot be written, it is beside the temporary files of others.
    """
    folder = temporary(home())
    try:
        folder.mkdir(parents=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="stepcast-own-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Nodes of this machine read it under accounts of their own.
    folder.chmod(0o755)
    return str(folder)


def hidden_packages() -> list[str]:
    """Return the names of this project's packages: users have some of the same names."""
    root = Path(__file__).parents[1]
    return sorted({path.parent.name for path in root.glob("*/__init__.py")} | {"tests"})
