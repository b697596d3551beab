"""A model of the user's own, as commands take it: package.module:function."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forecasting.asked.answer import Answer
from networks.extraction import know
from networks.own_model import NoGraph, own_graph
from networks.primitives import PrimitiveGraph
from pipelines.cli.templates import curves_of, of_options
from profilers.clusters.node_types import fleet_types
from studies.curve import Curve
from studies.words import count
from warehouse.records import BadInput

LEARNING = (
    "What learns from other networks needs a study that lists some under train:, such as "
    "studies/reference_ceer_pytorch.yaml; `stepcast plan` says how long it takes."
)
Options = Mapping[str, str | None]
_NOT_ASKED = {
    "dnn": "the model is the network",
    "image_size": "the example batch has the images",
    "framework": "models of your own are of PyTorch",
}


@dataclass(frozen=True)
class Own:
    """A user's model, what it is known as, and the curves that are asked about."""

    target: str
    graph: PrimitiveGraph
    curves: Sequence[Curve]

    @property
    def in_words(self) -> str:
        """One line about it."""
        side = self.graph.image_size
        images = f"images of {side} px" if side else "no images"
        parts = count(len(self.graph.nodes), "primitive operation")
        return (
            f"{self.target} is {self.graph.dnn}: {self.graph.parameter_count:,} parameters, "
            f"{parts}, {images}."
        )

    def as_json(self) -> dict[str, str | int]:
        """Return the same for programs."""
        return {
            "target": self.target,
            "dnn": self.graph.dnn,
            "parameters": self.graph.parameter_count,
            "primitives": len(self.graph.nodes),
            "image_size": self.graph.image_size,
        }


def is_target(text: str) -> bool:
    """Tell whether a word names a function, not a file.

    Raises:
        BadInput: it is neither, but looks as if a function was meant.
    """
    path = Path(text)
    if path.exists() and path.suffix != ".py":
        return False
    if ":" in text:
        return True
    if path.suffix not in ("", ".yaml", ".yml"):
        name = text.removesuffix(".py").replace("/", ".")
        function = "build_model" if path.suffix == ".py" else name.rpartition(".")[2]
        module = name if path.suffix == ".py" else name.rpartition(".")[0]
        raise BadInput(
            f"{text}: expected a YAML file of templates, or a function that builds your model, "
            f"such as {module}:{function}; docs/my-model.md says how to write one"
        )
    return False


def asked_of(target: str, options: Options) -> Own:
    """Return the model that a target builds, known as a network as long as this process lives.

    Raises:
        BadInput: an option is wrong, or the model has no graph; one line says why.
    """
    for name, why in _NOT_ASKED.items():
        given = options.get(name)
        if given is not None and (name, given) != ("framework", "pytorch"):
            option = name.replace("_", "-")
            raise BadInput(f"--{option} and {target}: {why}; leave out --{option}")
    # Wrong options are told before the model is built, which takes seconds.
    told = {**options, "dnn": "own", "image_size": "0", "framework": "pytorch"}
    asked = curves_of(of_options(told), None)
    try:
        graph = own_graph(target, asked[0].batch_size, Path.cwd())
    except NoGraph as error:
        raise BadInput(str(error)) from None
    know(graph, (target, str(Path.cwd())))
    named = {"dnn": graph.dnn, "image_size": graph.image_size}
    return Own(target, graph, [one.model_copy(update=named) for one in asked])


def to_profile(answer: Answer, own: Own) -> Iterator[str]:
    """Yield the command that measures what systems lack of the model and its nodes."""
    lacking = {needed.probe for one in answer.refused for needed in one.lacking}
    exchange = bool(lacking & {"links", "allreduce"})
    if exchange or "torch_compute" in lacking:
        one, largest = own.curves[0], max(curve.batch_size for curve in own.curves)
        types = dict.fromkeys(name for curve in own.curves for name in curve.worker)
        # Machines of a fleet do not see the files of a model.
        for worker in (name for name in types if name not in fleet_types()):
            workers = ",".join(map(str, one.workers))
            more = f" --workers {workers} --link-mbps {one.link_mbps:g}" if exchange else ""
            yield (
                f"To measure that on this machine, `stepcast profile {own.target} --worker "
                f"{worker} --batch-size {largest}{more}`."
            )
    if any(needed.of_train for one in answer.refused for needed in one.lacking):
        yield LEARNING
