"""Types of datasets that a graph hypernetwork is trained for: small images and their classes."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warehouse.records import BadInput

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images [n, channels, side, side] of zero mean and unit variance, and their classes [n]."""

    name: str
    images: Floats
    labels: NDArray[np.int64]
    classes: int

    @classmethod
    def of(cls, name: str, images: NDArray[np.generic], labels: NDArray[np.generic]) -> "Dataset":
        """Return a dataset of images of any scale.

        Raises:
            BadInput: no images, or as many labels as there are images not.
        """
        if len(images) == 0 or len(images) != len(labels):
            raise BadInput(
                f"dataset {name}: expected a label for each of some images, found {len(images)} "
                f"images and {len(labels)} labels"
            )
        pixels = images.astype(np.float32)
        scaled = (pixels - pixels.mean()) / max(float(pixels.std()), 1e-6)
        return cls(name, scaled, labels.astype(np.int64), int(labels.max()) + 1)


def digits() -> Dataset:
    """Return scikit-learn's handwritten digits: 1,797 images of 8 × 8, 10 classes."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return Dataset.of("digits", found.images[:, None], found.target)


def pairs() -> Dataset:
    """Return pairs of digits, rotated by a quarter or not: 200 classes of 8 × 16 in 16 × 16."""
    single = digits()
    draw = np.random.default_rng(0)
    count = 6000
    left, right = draw.integers(0, len(single.labels), (2, count))
    turned = draw.integers(0, 2, count)
    images = np.full((count, 1, 16, 16), single.images.min(), np.float32)
    images[:, :, 4:12, :8], images[:, :, 4:12, 8:] = single.images[left], single.images[right]
    images[turned == 1] = np.rot90(images[turned == 1], axes=(2, 3))
    labels = single.labels[left] * 10 + single.labels[right] + 100 * turned
    return Dataset.of("pairs", images, labels)


def cifar10(folder: Path) -> Dataset:
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
    return Dataset.of("cifar10", np.concatenate(images), np.concatenate(labels))


def tiny_imagenet(folder: Path) -> Dataset:
    """Return Tiny-ImageNet of its folder `tiny-imagenet-200`: 64 × 64, 200 classes.

    Raises:
        BadInput: the folder has no such files.
    """
    from matplotlib.image import imread

    names = sorted(one.name for one in (folder / "train").glob("n*/"))
    paths = [
        (path, label)
        for label, name in enumerate(names)
        for path in sorted((folder / "train" / name / "images").glob("*.JPEG"))
    ]
    if not paths:
        raise BadInput(f"{folder}: expected Tiny-ImageNet's train/n*/images/*.JPEG, found none")
    images = np.zeros((len(paths), 3, 64, 64), np.uint8)
    for place, (path, _) in enumerate(paths):
        pixels = imread(path)
        colours = pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)
        images[place] = colours.transpose(2, 0, 1)
    return Dataset.of("tiny_imagenet", images, np.array([label for _, label in paths]))


SHIPPED: Mapping[str, Callable[[], Dataset]] = {"digits": digits, "pairs": pairs}
"""Those that need no download."""
IN_FOLDERS: Mapping[str, Callable[[Path], Dataset]] = {
    "cifar10": cifar10,
    "tiny_imagenet": tiny_imagenet,
}


def dataset(name: str, folder: Path | None = None) -> Dataset:
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


class _OnlyArrays(pickle.Unpickler):
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
            found = _OnlyArrays(file, encoding="bytes").load()
    except (OSError, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise BadInput(f"{path}: expected a batch of CIFAR-10 ({error})") from None
    if not isinstance(found, dict):
        raise BadInput(f"{path}: expected a batch of CIFAR-10, found {type(found).__name__}")
    return found
