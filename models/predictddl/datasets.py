"""Types of datasets that a graph hypernetwork is trained for: small images and their classes."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from warehouse.records import BadInput, error_context

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ImageDataset:
    """Images and their classes.

    Attributes:
        name: of its type.
        pixels: of all images, as they are stored: [n, channels, side, side].
        labels: their classes: [n].
        classes: how many there are.
        mean: of all pixels.
        deviation: of all pixels.
    """

    name: str
    pixels: NDArray[np.generic]
    labels: NDArray[np.int64]
    classes: int
    mean: float
    deviation: float

    @classmethod
    def of(
        cls, name: str, pixels: NDArray[np.generic], labels: NDArray[np.generic]
    ) -> "ImageDataset":
        """Return a dataset of images of any scale.

        Raises:
            BadInput: there are no images, or not one label for each.
        """
        if len(pixels) == 0 or len(pixels) != len(labels):
            raise BadInput(
                f"dataset {name}: expected images and a label for each, found {len(pixels)} "
                f"images and {len(labels)} labels"
            )
        classes = labels.astype(np.int64)
        return cls(name, pixels, classes, int(classes.max()) + 1, *_moments(pixels))

    def images(self, chosen: Sequence[int] | NDArray[np.int64]) -> Floats:
        """Return some images, scaled so that all have zero mean and unit variance."""
        pixels = self.pixels[chosen].astype(np.float32)
        scaled: Floats = (pixels - np.float32(self.mean)) / np.float32(self.deviation)
        return scaled


def _moments(pixels: NDArray[np.generic]) -> tuple[float, float]:
    """Return mean and standard deviation; of bytes, which may be many, without a copy."""
    if pixels.dtype != np.uint8:
        floats = pixels.astype(np.float32)
        return float(floats.mean()), max(float(floats.std()), 1e-6)
    counts = np.zeros(256)
    for image in pixels:
        counts += np.bincount(image.ravel(), minlength=256)
    values = np.arange(256)
    mean = float(np.average(values, weights=counts))
    variance = float(np.average((values - mean) ** 2, weights=counts))
    return mean, max(sqrt(variance), 1e-6)


def digits() -> ImageDataset:
    """Return scikit-learn's handwritten digits: 1,797 images of 8 × 8, 10 classes."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return ImageDataset.of("digits", bunch.images[:, None], bunch.target)


def pairs() -> ImageDataset:
    """Return pairs of digits, rotated by a quarter or not: 200 classes of 8 × 16 in 16 × 16."""
    single = digits()
    draw = np.random.default_rng(0)
    digit = single.images(np.arange(len(single.labels)))
    count = 6000
    left, right = draw.integers(0, len(single.labels), (2, count))
    turned = draw.integers(0, 2, count)
    images = np.full((count, 1, 16, 16), digit.min(), np.float32)
    images[:, :, 4:12, :8], images[:, :, 4:12, 8:] = digit[left], digit[right]
    images[turned == 1] = np.rot90(images[turned == 1], axes=(2, 3))
    labels = single.labels[left] * 10 + single.labels[right] + 100 * turned
    return ImageDataset.of("pairs", images, labels)


_MOST = 10_000
"""Classes: a network that is trained for a dataset has an output for each."""
SHIPPED: Mapping[str, Callable[[], ImageDataset]] = {"digits": digits, "pairs": pairs}
"""Those that need no download."""


def dataset(name: str, folder: Path | None = None) -> ImageDataset:
    """Return a dataset by the name of its type: a shipped one, or NAME.npz of a folder.

    The file has `images`, [n, channels, side, side], and `labels`, whole numbers from 0 on, [n].

    Raises:
        BadInput: there is no such file, or it holds something else.
    """
    if name in SHIPPED:
        return SHIPPED[name]()
    if folder is None:
        known = ", ".join(SHIPPED)
        raise BadInput(
            f"unknown type of dataset {name!r}; known are {known}, and others by --datasets FOLDER"
        )
    file = folder / f"{name}.npz"
    unread = OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error
    with error_context(f"{file}: expected images and their labels, as numpy.savez", *unread):
        with np.load(file, allow_pickle=False) as arrays:
            images, labels = arrays["images"], arrays["labels"]
    is_square = images.ndim == 4 and images.shape[2] == images.shape[3] and images.size > 0
    are_labels = labels.dtype.kind in "ui" and labels.shape == images.shape[:1]
    are_numbers = images.dtype.kind in "uif" and bool(np.isfinite(images).all())
    if not (is_square and are_numbers and are_labels and 0 <= labels.min() < labels.max() < _MOST):
        raise BadInput(
            f"{file}: expected images as finite numbers, [n, channels, side, side], and labels as "
            f"whole numbers from 0 to {_MOST - 1}, [n], of more than one class, "
            f"found {images.dtype} {list(images.shape)} and {labels.dtype} {list(labels.shape)}"
        )
    return ImageDataset.of(name, images, labels)
