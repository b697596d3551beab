"""How rows of a figure are drawn."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Mark:
    """How rows are drawn.

    Attributes:
        kind: lines or steps.
        x: a column.
        y: columns; those after the first are dashed.
        of: the column that colours tell apart.
        panel: a column with a picture for each of its values.
        has_log_y: whether the vertical axis is on a scale of logarithms.
    """

    kind: Literal["line", "step"]
    x: str
    y: tuple[str, ...]
    of: str = ""
    panel: str = ""
    has_log_y: bool = False
