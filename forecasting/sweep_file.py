"""A sweep file: a grid of scenarios as templates with lists, and the parts that they come in."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import Field, PastDate, ValidationError

from forecasting.inputs import systems_named
from forecasting.options import TrainingOptions
from networks import check
from networks.own_huggingface import PREFIX, as_trained
from networks.own_model import OwnModel
from profilers.record_file import fault, read_record
from studies.curve import Curve
from warehouse import limits
from warehouse.records import BadInput, Record

PART_SCENARIOS = 2_000
"""Of a part: about two seconds of forecasting, and what is lost by a kill."""
_OF_HUGGING_FACE = ("head", "lora", "lora_targets", "checkpoint_activations")
"""Fields that say how a model of Hugging Face is trained; each choice is a model by itself."""
_OUTERMOST = (
    *("dnn", "framework", "image_size", "sequence_length", "batch_size", "precision"),
    *("memory_format", "compiled", "optimizer", "accumulate"),
)
"""Axes that say what a step has to do: a part has few of these, and many node types."""


class SweepFile(Record):
    """What a sweep file says.

    Attributes:
        systems: that forecast; none: all that need no naming.
        prices_on: days at whose end prices were known; none: as they are known now.
        scenarios: templates as under `test:` of a study, of which any field may be a list.
    """

    systems: tuple[str, ...] = Field(default=(), max_length=limits.LISTED)
    prices_on: tuple[PastDate, ...] = Field(default=(), max_length=limits.LISTED)
    scenarios: tuple[Mapping[str, Any], ...] = Field(min_length=1, max_length=limits.LISTED)


def read_sweep(path: Path) -> SweepFile:
    """Read a sweep file, and check each value of each list once.

    A model of the user's own has a template by itself for each length of its words, and for each
    way in which one of Hugging Face is trained.

    Raises:
        BadInput: naming the file and the field.
    """
    sweep = read_record(path, SweepFile, "sweep")
    systems_named(sweep.systems)
    templates: list[Mapping[str, Any]] = []
    for number, template in enumerate(sweep.scenarios):
        try:
            divided = list(_divide(template))
            for one_model in divided:
                Grid(one_model).check()
        except (ValueError, BadInput) as error:
            reason = fault(error, Curve) if isinstance(error, ValidationError) else error
            raise BadInput(f"{path}: scenarios[{number}]: {reason}") from None
        templates += divided
    if len(templates) > limits.LISTED:
        raise BadInput(f"{path}: {len(templates)} templates and models; {limits.LISTED} at most")
    return sweep.model_copy(update={"scenarios": tuple(templates)})


def _divide(template: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a template for each model of the user's own; one of the catalogue stays as it is.

    Raises:
        ValueError: it has both.
    """
    lists = Grid(template).axes
    networks = lists.get("dnn", [template.get("dnn")])
    targets = [dnn for dnn in networks if is_own_model(dnn)]
    said = [name for name in _OF_HUGGING_FACE if template.get(name) is not None]
    if said and not all(str(dnn).startswith(PREFIX) for dnn in networks):
        raise ValueError(f"{said[0]}: only models by a config, hf:CONFIG, have that to choose")
    if not targets:
        yield template
        return
    if len(targets) < len(networks):
        raise ValueError(
            f"dnn: {targets[0]} is a model of your own; give networks of the catalogue a template "
            "of their own"
        )
    precisions = lists.get("precision", [template.get("precision")])
    if "lora" in said or any(str(each).lower().endswith("-true") for each in precisions):
        said.append("precision")  # of weights, too
    others = {name: value for name, value in template.items() if name not in _OF_HUGGING_FACE}
    names = ["dnn", "sequence_length", *said]
    for values in product(*(lists.get(name, [template.get(name)]) for name in names)):
        asked = TrainingOptions.model_validate(dict(zip(names, values, strict=True)))
        as_asked = {**others, "sequence_length": asked.sequence_length, **asked.training}
        yield {**as_asked, "dnn": as_trained(str(asked.dnn), **asked.of_hugging_face)}


def is_own_model(dnn: object) -> bool:
    """Tell whether a network is a model of the user's own: hf:CONFIG, or module:function."""
    return isinstance(dnn, str) and ":" in dnn


@dataclass(frozen=True)
class Grid:
    """The curves of a template, numbered; none of them is made before it is asked for.

    `model`: that of the user's own which the template is about, once it is traced.
    """

    template: Mapping[str, Any]
    model: OwnModel | None = None

    @cached_property
    def axes(self) -> Mapping[str, Sequence[Any]]:
        """Fields that are lists, what says the work of a step first.

        Raises:
            ValueError: a list is empty, or has a value twice.
        """
        lists = {
            name: value
            for name, value in self.template.items()
            if isinstance(value, list) and name != "workers"
        }
        for name, values in lists.items():
            if not values:
                raise ValueError(f"{name}: expected a value or a list of some, found an empty list")
            if twice := next((value for value in values if values.count(value) > 1), None):
                raise ValueError(f"{name}: {twice!r} is there twice")
        ranked = [*(name for name in _OUTERMOST if name in lists), *lists]
        return {name: lists[name] for name in dict.fromkeys(ranked)}

    def __len__(self) -> int:
        return math.prod(map(len, self.axes.values()))

    @property
    def workers(self) -> Sequence[int]:
        """Numbers of workers of each curve."""
        workers = self.template.get("workers", 1)
        return workers if isinstance(workers, list) else [workers]

    def fields(self, number: int) -> Mapping[str, Any]:
        """Return the fields of a curve."""
        chosen = {}
        for name, values in reversed(list(self.axes.items())):
            number, place = divmod(number, len(values))
            chosen[name] = values[place]
        return {**self.template, **chosen, **self._fields_of_model()}

    def _fields_of_model(self) -> Mapping[str, Any]:
        """Return what a model of the user's own says itself; of images nothing, until traced."""
        if not is_own_model(self.template.get("dnn")):
            return {}
        if self.model is None:
            return {"framework": "pytorch", "image_size": 0}
        return self.model.workload_fields

    def curves_of_values(self) -> list[Curve]:
        """Return a curve with each value of each list, and the first of all others.

        Raises:
            ValueError: a curve cannot be.
        """
        first = self.fields(0)
        return [
            Curve.model_validate({**first, name: value} if name in first else first)
            for name, values in [*self.axes.items(), ("workers", [self.workers])]
            for value in values
        ]

    def check(self) -> None:
        """Make a curve with each value of each list.

        Raises:
            ValueError: a curve cannot be, or there is no such network.
        """
        if "is_judged" in self.template or "mix" in self.template:
            raise ValueError("is_judged, mix: not of a sweep; leave them out")
        for curve in self.curves_of_values():
            if not is_own_model(curve.dnn):
                check(curve.dnn, framework=curve.framework)


@dataclass(frozen=True)
class Part:
    """Curves of one template: those from `start` to `stop`."""

    number: int
    template: int
    start: int
    stop: int
    first_scenario: int

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"part-{self.number:05}.parquet"


def parts_of(sweep: SweepFile) -> tuple[Part, ...]:
    """Return the parts of a sweep, each of about `PART_SCENARIOS` scenarios."""
    parts: list[Part] = []
    scenarios = 0
    for place, template in enumerate(sweep.scenarios):
        grid = Grid(template)
        of_part = max(PART_SCENARIOS // len(grid.workers), 1)
        for start in range(0, len(grid), of_part):
            stop = min(start + of_part, len(grid))
            parts.append(Part(len(parts), place, start, stop, scenarios))
            scenarios += (stop - start) * len(grid.workers)
    return tuple(parts)


def count_scenarios(sweep: SweepFile) -> int:
    """Return how many scenarios a sweep has."""
    grids = map(Grid, sweep.scenarios)
    return sum(len(grid) * len(grid.workers) for grid in grids)
