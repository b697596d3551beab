"""Fields of records: amounts that people write, and names that become part of a path."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated

from pydantic import BeforeValidator, Field

from warehouse import limits, records
from warehouse.records import BadInput

# Amounts that people write in files, as fields of records: finite, and with an end.


Nodes = Annotated[int, Field(ge=1, le=limits.NODES)]
"""Nodes, devices, workers or flows at once."""
Repeats = Annotated[int, Field(ge=1, le=limits.REPEATS)]
"""How often something is measured: steps, trials, windows, iterations of a measurement."""
Batch = Annotated[int, Field(ge=1, le=limits.BATCH)]
"""Samples of one iteration."""
Pixels = Annotated[int, Field(ge=8, le=limits.PIXELS)]
"""The side of a square image."""
PixelsOrNone = Annotated[int, Field(ge=0, le=limits.PIXELS)]
"""The side of a square image; 0: of a network that takes none."""
Bytes = Annotated[int, Field(ge=1, le=limits.TENSOR_BYTES)]
"""The length of what is exchanged at once."""
Seconds = Annotated[float, Field(gt=0, le=limits.SECONDS, allow_inf_nan=False)]
"""How long something takes, or may take."""
SecondsOrNone = Annotated[float, Field(ge=0, le=limits.SECONDS, allow_inf_nan=False)]
"""How long something takes that may take no time at all."""
Mbps = Annotated[float, Field(gt=0, le=limits.MBPS, allow_inf_nan=False)]
"""The speed of a link, 10⁶ bits a second."""
Usd = Annotated[float, Field(ge=0, le=limits.USD, allow_inf_nan=False)]
"""A price, or what is spent, US dollars."""


# How a network is trained, as people write it.


_PRECISIONS = {
    "fp32": "float32",
    "float": "float32",
    "single": "float32",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
}


def spelled_out(precision: object) -> object:
    """Return the name of a precision in PyTorch, as which it lands, for what people call it."""
    if not isinstance(precision, str):
        return precision
    name = precision.lower().removeprefix("torch.")
    return _PRECISIONS.get(name, name)


def compiled_mode(compiled: object) -> object:
    """Return the mode of torch.compile; true is the default one, False is none."""
    return "default" if compiled in (True, "true") else compiled or False


def _in_small_letters(name: object) -> object:
    return name.lower() if isinstance(name, str) else name


Precision = Annotated[records.Precision, BeforeValidator(spelled_out)]
"""As in `TrainingWorkload`, also by PyTorch's other names and those of its users: bf16, half."""
Optimizer = Annotated[records.Optimizer, BeforeValidator(_in_small_letters)]
"""As in `TrainingWorkload`, also in capitals."""
Passes = Annotated[int, Field(ge=1, le=limits.PASSES)]
"""Forward passes whose gradients are added in a step."""
Words = Annotated[int, Field(ge=1, le=limits.WORDS)]
"""The length of a sample of text."""
Compiled = Annotated[records.Compiled, BeforeValidator(compiled_mode)]
"""As in `TrainingWorkload`; true: in the default mode."""


# Names that become part of a path: of studies, jobs, runs, clusters.


PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
"""No separator, no `..`, nothing that looks like an option or is hidden, and not too long."""
Name = Annotated[str, Field(pattern=PATTERN)]
"""Such a name as the field of a record."""
SPELLINGS = {
    PATTERN: "use up to 100 letters, digits, . _ and -, and begin with a letter, a digit or _",
    records.WHAT_IF: "expected lost-node, or slow-gpu=0.8 or slow-link=0.5 with a part below 1",
}
"""What to write, by the pattern of a field."""


def checked_name(name: str, what: str) -> str:
    """Return a name that may become part of a path.

    Args:
        name: somebody's choice.
        what: what it names: "study".

    Raises:
        BadInput: it may not.
    """
    if not re.fullmatch(PATTERN, name):
        raise BadInput(f"{what} {name!r:.120} cannot be part of a path; {SPELLINGS[PATTERN]}")
    return name


def nearest_names(name: str, known: Collection[str], most: int = 3) -> list[str]:
    """Return known names that somebody may have meant: of the same kind, or a slip of the keys.

    Kinds are the letters that names begin with: p5.48xlarge is near p4d.24xlarge, never m5.large.

    Args:
        name: that nobody knows.
        known: all that there are.
        most: how many at most, the nearest first.
    """
    alike = [other for other in known if _kind(other) == _kind(name)]
    return get_close_matches(name, alike, most, 0.3) or get_close_matches(name, known, most, 0.8)


def _kind(name: str) -> str:
    letters = re.match(r"[a-z]*", name.lower())
    assert letters is not None
    return letters.group()
