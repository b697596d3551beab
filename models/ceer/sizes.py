"""Sizes and work of operations: what all frameworks have in common."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Shape = Sequence[int]
BYTES = 4
"""Of an element, where a table does not say (float32)."""


@dataclass(frozen=True)
class Features:
    """Sizes in megabytes, work in billions of multiplications.

    `filter` is the size of the filter or of the right factor of a product. `stride` is the product
    of strides, `padding` 1 for SAME and 0 for VALID, both 0 where there is none. `work` counts all
    multiplications of a convolution or product (comparisons of a pool), `inside` leaves out those
    with the padding around an image.
    """

    input: float
    filter: float = 0.0
    output: float = 0.0
    stride: float = 0.0
    padding: float = 0.0
    work: float = 0.0
    inside: float = 0.0


def megabytes(size_bytes: int | None, shapes: Sequence[Shape]) -> float:
    """Return a size, that of all elements where nobody says."""
    if size_bytes is not None:
        return size_bytes / 1e6
    return sum(math.prod(shape) for shape in shapes) * BYTES / 1e6


def multiplications(
    image: Shape, kernel: Shape, moved: Shape, strides: Sequence[int], before: Sequence[int]
) -> tuple[float, float]:
    """Return billions of multiplications of a convolution: all, and those inside the image.

    Args:
        image: [batch, y, x, channels].
        kernel: [y, x, channels in, channels out].
        moved: the map that the filter moves over, as the image.
        strides: over y and x.
        before: padding above and left of the image.
    """
    each = moved[0] * kernel[2] * kernel[3]
    work = each * moved[1] * moved[2] * kernel[0] * kernel[1]
    taps = 1
    for side, size, places, stride, padding in zip(
        image[1:3], kernel[:2], moved[1:3], strides, before, strict=True
    ):
        taps *= _taps_inside(side, size, places, stride, padding)
    return work / 1e9, each * taps / 1e9


def product_work(left: Shape, right: Shape, product: Shape) -> float:
    """Return b m n k / 1e9 of b products of m × k and k × n: the root of all sizes' product / b."""
    batch = math.prod(product[:-2])
    sizes = math.prod(left) * math.prod(right) * math.prod(product)
    return math.sqrt(sizes / batch) / 1e9 if batch else 0.0


def _taps_inside(side: int, size: int, places: int, stride: int, before: int) -> int:
    """Return how many elements of a row a filter of `size` meets at all its places together."""
    starts = (place * stride - before for place in range(places))
    return sum(max(min(start + size, side) - max(start, 0), 0) for start in starts)
