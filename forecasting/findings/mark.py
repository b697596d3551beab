"""How rows of a figure are drawn."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Mark:
    """How rows are drawn.

    Attributes:
        kind: lines, points, steps, or spans from `x` to `to`.
        x: a column.
        y: columns; those after the first are dashed, or points beside a line.
        of: the column that colours tell apart.
        panel: a column with a picture for each of its values.
        to: where a span ends.
        log: axes on a scale of logarithms: x, y or xy.
    """

    kind: Literal["line", "points", "step", "spans"]
    x: str
    y: tuple[str, ...]
    of: str = ""
    panel: str = ""
    to: str = ""
    log: str = ""
