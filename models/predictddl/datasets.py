"""Types of datasets that a graph hypernetwork is trained for: small images and their classes."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warehouse.records import BadInput

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


def cifar10(folder: Path) -> ImageDataset:
    """Return CIFAR-10 of a folder `cifar-10-batches-py`, as its authors pack it.

    Raises:
        BadInput: the folder has no such files, or they hold something else.
    """
    images, labels = [], []
    for number in range(1, 6):
        fields = _unpickled(folder / f"data_batch_{number}")
        try:
            images.append(np.asarray(fields[b"data"], np.uint8).reshape(-1, 3, 32, 32))
            labels.append(np.asarray(fields[b"labels"], np.int64))
        except (KeyError, ValueError, TypeError) as error:
            raise BadInput(f"{folder}: expected CIFAR-10's batches ({error})") from None
    return ImageDataset.of("cifar10", np.concatenate(images), np.concatenate(labels))


def tiny_imagenet(folder: Path) -> ImageDataset:
    """Return Tiny-ImageNet of its folder `tiny-imagenet-200`: 64 × 64, 200 classes.

    Raises:
        BadInput: the folder has no such files, or one is no image of that size.
    """
    names = sorted(class_folder.name for class_folder in (folder / "train").glob("n*/"))
    paths = [
        (path, label)
        for label, name in enumerate(names)
        for path in sorted((folder / "train" / name / "images").glob("*.JPEG"))
    ]
    if not paths:
        raise BadInput(f"{folder}: expected Tiny-ImageNet's train/n*/images/*.JPEG, found none")
    images = np.zeros((len(paths), 3, 64, 64), np.uint8)
    for place, (path, _) in enumerate(paths):
        images[place] = _colours(path)
    return ImageDataset.of("tiny_imagenet", images, np.array([label for _, label in paths]))


def _colours(path: Path) -> NDArray[np.uint8]:
    """Return an image's red, green and blue; some are grey."""
    from matplotlib.image import imread

    try:
        pixels = np.asarray(imread(path), np.uint8)
    except (OSError, ValueError, SyntaxError) as error:
        raise BadInput(f"{path}: expected an image ({error})") from None
    colours = pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)
    if colours.shape != (64, 64, 3):
        raise BadInput(f"{path}: expected an image of 64 × 64, found {colours.shape}")
    return colours.transpose(2, 0, 1)


SHIPPED: Mapping[str, Callable[[], ImageDataset]] = {"digits": digits, "pairs": pairs}
"""Those that need no download."""
IN_FOLDERS: Mapping[str, Callable[[Path], ImageDataset]] = {
    "cifar10": cifar10,
    "tiny_imagenet": tiny_imagenet,
}


def dataset(name: str, folder: Path | None = None) -> ImageDataset:
    """Return a dataset by the name of its type.

    Raises:
        BadInput: there is no such type, or it needs a folder.
    """
    if name in SHIPPED:
        return SHIPPED[name]()
    if name not in IN_FOLDERS:
        known = ", ".join((*SHIPPED, *IN_FOLDERS))
        raise BadInput(f"unknown type of dataset {name!r}: there are {known}")
    if folder is None:
        raise BadInput(f"dataset {name} cannot be downloaded; name the folder that has it")
    return IN_FOLDERS[name](folder)


class _ArrayUnpickler(pickle.Unpickler):
    """Loads what CIFAR-10's files are made of, and nothing that could run."""

    def find_class(self, module: str, name: str) -> object:
        """Refuse all but what makes arrays."""
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is no array")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _unpickled(path: Path) -> Mapping[bytes, object]:
    try:
        with path.open("rb") as file:
            batch = _ArrayUnpickler(file, encoding="bytes").load()
    except (OSError, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise BadInput(f"{path}: expected a batch of CIFAR-10 ({error})") from None
    if not isinstance(batch, dict):
        raise BadInput(f"{path}: expected a batch of CIFAR-10, found {type(batch).__name__}")
    return batch
