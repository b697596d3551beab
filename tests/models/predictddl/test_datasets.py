"""Types of datasets: those that are shipped, and arrays of a folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from models.predictddl.datasets import ImageDataset, dataset, digits, pairs
from warehouse.records import BadInput


def everything(of: ImageDataset) -> NDArray[np.float32]:
    """Return all images, scaled."""
    return of.images(np.arange(len(of.labels)))


def test_shipped_types() -> None:
    single = digits()
    assert (single.pixels.shape, single.classes) == ((1797, 1, 8, 8), 10)
    made = pairs()
    assert made.pixels.shape == (6000, 1, 16, 16)
    assert made.classes == len(set(made.labels.tolist())) == 200
    for shipped in (single, made):
        assert abs(float(everything(shipped).mean())) < 1e-4
        assert float(everything(shipped).std()) == pytest.approx(1, abs=1e-4)
    with pytest.raises(BadInput, match="unknown type of dataset 'faces'; known are digits, pairs"):
        dataset("faces")


def test_bytes_stay_bytes_and_are_scaled_by_the_batch() -> None:
    """Tiny-ImageNet in 32 bits has 4.9 GB."""
    pixels = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 8)).astype(np.uint8)
    image_dataset = ImageDataset.of("bytes", pixels, np.arange(50) % 3)
    assert image_dataset.pixels is pixels
    exact = (pixels.astype(np.float64) - pixels.mean(dtype=np.float64)) / pixels.std(dtype=float)
    np.testing.assert_allclose(image_dataset.images([7, 3]), exact[[7, 3]], atol=1e-6)
    assert image_dataset.images([7, 3]).dtype == np.float32


def test_others_are_arrays_of_a_folder(tmp_path: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (6, 3, 32, 32)).astype(np.uint8)
    np.savez(tmp_path / "cifar10.npz", images=images, labels=[0, 9, 8, 7, 1, 9])
    image_dataset = dataset("cifar10", tmp_path)
    assert image_dataset.pixels.dtype == np.uint8
    assert np.array_equal(image_dataset.pixels, images)
    assert (image_dataset.labels.tolist(), image_dataset.classes) == ([0, 9, 8, 7, 1, 9], 10)


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (np.zeros((2, 3, 8, 4)), [0, 1], r"found float64 \[2, 3, 8, 4\]"),
        (np.zeros((2, 1, 8, 8)), [0.5, 1], r"and float64 \[2\]"),
        (np.zeros((2, 1, 8, 8)), [0], r"and int64 \[1\]"),
        (np.zeros((2, 1, 8, 8)), [-1, 1], "labels as whole numbers from 0 to 9999"),
        (np.zeros((2, 1, 8, 8)), [0, 10**9], "labels as whole numbers from 0 to 9999"),
        (np.full((2, 1, 8, 8), np.nan), [0, 1], "images as finite numbers"),
        (np.array([print], object), [0], r"faces\.npz: expected images and their labels.*pickle"),
    ],
)
def test_what_is_no_dataset_is_refused(
    tmp_path: Path, images: NDArray[Any], labels: list[float], said: str
) -> None:
    np.savez(tmp_path / "faces.npz", images=images, labels=labels)
    with pytest.raises(BadInput, match=said):
        dataset("faces", tmp_path)
    for damaged in (b"", b"no archive", (tmp_path / "faces.npz").read_bytes()[:90]):
        (tmp_path / "faces.npz").write_bytes(damaged)
        with pytest.raises(BadInput, match="expected images and their labels"):
            dataset("faces", tmp_path)
