"""Types of datasets: those that are shipped, and tiny ones in the formats that others publish."""

import pickle
import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from models.predictddl.datasets import ImageDataset, cifar10, dataset, digits, pairs, tiny_imagenet
from warehouse.records import BadInput

BATCHES, IN_A_BATCH = 5, 4


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
    with pytest.raises(BadInput, match="unknown type of dataset 'faces': there are digits, pairs"):
        dataset("faces")
    with pytest.raises(BadInput, match="cifar10 cannot be downloaded; name the folder"):
        dataset("cifar10")


def test_bytes_stay_bytes_and_are_scaled_by_the_batch() -> None:
    """Tiny-ImageNet in 32 bits has 4.9 GB."""
    pixels = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 8)).astype(np.uint8)
    image_dataset = ImageDataset.of("bytes", pixels, np.arange(50) % 3)
    assert image_dataset.pixels is pixels
    exact = (pixels.astype(np.float64) - pixels.mean(dtype=np.float64)) / pixels.std(dtype=float)
    np.testing.assert_allclose(image_dataset.images([7, 3]), exact[[7, 3]], atol=1e-6)
    assert image_dataset.images([7, 3]).dtype == np.float32


class _Python2(pickle._Pickler):  # noqa: SLF001
    """Writes bytes as strings of Python 2, which CIFAR-10's authors used."""

    write: Callable[[bytes], int]
    dispatch: ClassVar[Any] = pickle._Pickler.dispatch.copy()  # noqa: SLF001

    def save_string(self, text: bytes | str) -> None:
        """Write a string of Python 2."""
        content = text.encode("latin-1") if isinstance(text, str) else text
        self.write(b"T" + struct.pack("<i", len(content)) + content)

    dispatch[bytes] = dispatch[str] = save_string


def batch(fields: Any) -> bytes:
    """Return a file of CIFAR-10 as its authors wrote it, with the NumPy of then."""
    file = BytesIO()
    _Python2(file, protocol=2).dump(fields)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def write_cifar(folder: Path) -> NDArray[np.uint8]:
    """Write five batches of four images; return these."""
    size = (BATCHES * IN_A_BATCH, 3, 32, 32)
    images = np.random.default_rng(1).integers(0, 256, size).astype(np.uint8)
    for number in range(BATCHES):
        some = images[number * IN_A_BATCH : (number + 1) * IN_A_BATCH]
        fields = {
            b"batch_label": b"training batch %d of 5" % (number + 1),
            b"labels": [number, 9, 8, 7],
            b"data": some.reshape(IN_A_BATCH, 3072),
            b"filenames": [b"a.png"] * IN_A_BATCH,
        }
        (folder / f"data_batch_{number + 1}").write_bytes(batch(fields))
    return images


def test_cifar10_is_read_as_it_was_published(tmp_path: Path) -> None:
    images = write_cifar(tmp_path)
    image_dataset = dataset("cifar10", tmp_path)
    assert image_dataset.pixels.dtype == np.uint8
    assert np.array_equal(image_dataset.pixels, images)
    assert image_dataset.labels.tolist() == [
        label for first in range(5) for label in (first, 9, 8, 7)
    ]
    assert image_dataset.classes == 10


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "data_batch_3: expected a batch of CIFAR-10"),
        (batch([1]), "data_batch_3: expected a batch of CIFAR-10, found list"),
        (batch({b"labels": [1]}), "expected CIFAR-10's batches .*data"),
        (batch({b"data": np.zeros(7, np.uint8), b"labels": [1]}), "expected CIFAR-10's batches"),
        (pickle.dumps({b"data": print}, 2), "builtin.*print is no array"),
    ],
)
def test_what_is_no_cifar10_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    write_cifar(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(content)
    with pytest.raises(BadInput, match=said):
        cifar10(tmp_path)


def write_tiny(folder: Path) -> None:
    """Write three images of two classes: a grey one first, then two of one colour each."""
    for name, number, mode, colour in (
        ("n01443537", 0, "L", 90),
        ("n01443537", 1, "RGB", (250, 10, 30)),
        ("n01629819", 0, "RGB", (20, 40, 240)),
    ):
        images = folder / "train" / name / "images"
        images.mkdir(parents=True, exist_ok=True)
        Image.new(mode, (64, 64), colour).save(images / f"{name}_{number}.JPEG", quality=95)
        (images.parent / f"{name}_boxes.txt").write_text(f"{name}_{number}.JPEG\t0\t0\t62\t62\n")
    (folder / "wnids.txt").write_text("n01629819\nn01443537\n")


def test_tiny_imagenet_is_read_as_it_was_published(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    image_dataset = dataset("tiny_imagenet", tmp_path)
    assert image_dataset.pixels.shape == (3, 3, 64, 64)
    assert image_dataset.pixels.dtype == np.uint8
    assert (image_dataset.labels.tolist(), image_dataset.classes) == ([0, 0, 1], 2)
    middle = image_dataset.pixels[:, :, 32, 32].astype(int)
    expected = [[90, 90, 90], [250, 10, 30], [20, 40, 240]]
    # JPEG is off by a little.
    np.testing.assert_allclose(middle, expected, atol=4)


def test_what_is_no_tiny_imagenet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"expected Tiny-ImageNet's train/n\*/images/\*\.JPEG"):
        tiny_imagenet(tmp_path)
    write_tiny(tmp_path)
    other = tmp_path / "train/n01629819/images/n01629819_0.JPEG"
    Image.new("RGB", (32, 64)).save(other)
    with pytest.raises(
        BadInput, match=r"_0\.JPEG: expected an image of 64 × 64, found \(64, 32, 3\)"
    ):
        tiny_imagenet(tmp_path)
    other.write_bytes(b"no image")
    with pytest.raises(BadInput, match=r"_0\.JPEG: expected an image \("):
        tiny_imagenet(tmp_path)
