"""Handwritten digits: MNIST, and the small ones that come with scikit-learn."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fwnet.data.folders import DATA_VARIABLE, DataError, data_folder, download, md5
from fwnet.data.seeds import keyed_generator

__all__ = ["Digits", "load_mnist", "small_digits"]

# The file, the MD5 of its content (as published), and the MD5 of the archive that is downloaded.
FILES = {
    "train-images-idx3-ubyte": (
        "6bbc9ace898e44ae57da46a324031adb",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ),
    "train-labels-idx1-ubyte": (
        "a25bea736e30d166cdddb491f175f624",
        "d53e105ee54ea40749a09fcbcd1e9432",
    ),
    "t10k-images-idx3-ubyte": (
        "2646ac647ad5339dbf082846283269ea",
        "9fb629c4189551a2d022fa330f9573f3",
    ),
    "t10k-labels-idx1-ubyte": (
        "27ae3e4e09519cfbb04c329615203637",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
}
SOURCES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


@dataclass(frozen=True)
class Digits:
    """Images of the digits 0 to 9, with labels.

    Attributes:
        name: What to call them.
        images: For training, (count, height·width), float32 in [0, 1].
        labels: Their digits, (count,), int64.
        test_images: For testing.
        test_labels: Their digits.
        shape: Height and width of an image.
    """

    name: str
    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    shape: tuple[int, int]

    def split(self, num_validation: int, seed: int = 0) -> Digits:
        """Training images alone, of which some, drawn by the seed, stand in for the test images."""
        if not 0 < num_validation < len(self.images):
            raise ValueError(
                f"num_validation must be between 1 and {len(self.images) - 1}, the training images "
                f"but one, got {num_validation!r}"
            )
        order = torch.randperm(len(self.images), generator=keyed_generator(seed, "validation"))
        held, kept = order[:num_validation], order[num_validation:]
        images, labels = self.images, self.labels
        return Digits(self.name, images[kept], labels[kept], images[held], labels[held], self.shape)


def load_mnist(folder: str | Path | None = None) -> Digits:
    """The 60,000 + 10,000 digits of MNIST (LeCun, Cortes and Burges).

    Args:
        folder: Where the four IDX files are, gzipped or not, or the folder above. Default:
            $FWNET_DATA/mnist; where there is none, they are downloaded (12 MB) and kept.

    Every file is checked against its published MD5.
    """
    where = data_folder("mnist", folder)
    parts = [_read(where, name) for name in FILES]
    images, labels, test_images, test_labels = parts
    return Digits(
        "MNIST",
        _images(images),
        _labels(labels),
        _images(test_images),
        _labels(test_labels),
        (28, 28),
    )


def small_digits(num_test: int = 360) -> Digits:
    """scikit-learn's 1,797 digits of 8 × 8 pixels, which need no file: the last ones are tested.

    They come writer by writer, so that those tested are mostly of writers not trained on.
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = torch.from_numpy((pixels / 16).astype(np.float32))
    digits = torch.from_numpy(labels.astype(np.int64))
    kept = len(images) - num_test
    return Digits(
        "scikit-learn's digits", images[:kept], digits[:kept], images[kept:], digits[kept:], (8, 8)
    )


def _read(folder: Path | None, name: str) -> bytes:
    """The content of a file, checked."""
    checksum, archive_checksum = FILES[name]
    if folder is None:
        path = download("mnist", f"{name}.gz", f"md5:{archive_checksum}", SOURCES)
    else:
        choices = [folder / f"{name}.gz", folder / name]
        found = [path for path in choices if path.is_file()]
        if not found:
            raise DataError(
                f"expected {name}.gz or {name} in {folder}, got neither (without a folder and "
                f"without {DATA_VARIABLE}, MNIST is downloaded)"
            )
        path = found[0]
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if md5(content) != checksum:
        raise DataError(
            f"{path} is not the file of MNIST: expected the MD5 {checksum}, got {md5(content)}"
        )
    return content


def _images(content: bytes) -> Tensor:
    pixels = np.frombuffer(content, np.uint8, offset=16).reshape(-1, 28 * 28)
    return torch.from_numpy(pixels.astype(np.float32) / 255)


def _labels(content: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=8).astype(np.int64))
