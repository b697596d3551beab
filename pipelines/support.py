"""Which types of models of Hugging Face are answered: a table that `scripts/support.py` makes.

Loads no framework.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from warehouse.records import Record

TABLE = Path(__file__).with_name("support.csv")
MOST_UNCOUNTED, MOST_DEVIATION = 0.05, 0.02


class Support(Record):
    """What is answered about `hf:TYPE`.

    Attributes:
        type: of a model, as its config says.
        model: whether its default config makes a model by itself; parts of others make none.
        trained: class of the model, with the head that it is trained with.
        inputs: names of what it is called with.
        layers: `default`, or how many of each kind the model had that was asked about.
        seconds: of a processor, to trace its steps.
        operators: of a training step.
        uncounted: part of its work that operators of unknown work have at most.
        deviation: of the rest from PyTorch's own `FlopCounterMode`, where that has a formula.
        reason: why nothing is answered; empty: something is.
    """

    type: str
    model: bool = True
    trained: str = ""
    inputs: str = ""
    layers: str = ""
    seconds: float = 0.0
    operators: int = 0
    uncounted: float = 0.0
    deviation: float = 0.0
    reason: str = ""

    @property
    def is_answered(self) -> bool:
        """Whether a forecast rests on work that is counted, as far as it has to be."""
        counted = self.uncounted <= MOST_UNCOUNTED and self.deviation <= MOST_DEVIATION
        return self.model and not self.reason and counted

    @property
    def answer(self) -> str:
        """`yes`, `no`, or that there is no model to ask about."""
        return "yes" if self.is_answered else "no" if self.model else "no model"

    @property
    def detail(self) -> str:
        """What was asked about, or why nothing is answered."""
        if self.reason:
            return self.reason
        layers = "" if self.layers == "default" else f", {self.layers} layers of a kind"
        uncounted = f", {100 * self.uncounted:.0f} % uncounted" if self.uncounted > 0.005 else ""
        return f"{self.trained} of {self.inputs.replace(' ', ', ')}{layers}{uncounted}"

    def cells(self) -> list[str]:
        """Return its row."""
        values = (value for _, value in self)
        return [f"{value:.4g}" if type(value) is float else str(value) for value in values]


@cache
def supported() -> Mapping[str, Support]:
    """Return what is answered, by type."""
    with TABLE.open(newline="") as file:
        return {row["type"]: Support.model_validate(row) for row in csv.DictReader(file)}


def share_answered() -> float:
    """Return the part of types that is answered, of those that make a model by themselves."""
    models = [each for each in supported().values() if each.model]
    return sum(each.is_answered for each in models) / len(models)
