"""Handwritten digits: MNIST, and the small images of scikit-learn."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fwnet.data.folders import DATA_VARIABLE, DataError, data_folder, download
from fwnet.data.seeds import keyed_generator

# Each file with the MD5 of its content, as published, and the MD5 of its gzip archive.
TABLE = """
train-images-idx3-ubyte  6bbc9ace898e44ae57da46a324031adb  f68b3c2dcbeaaa9fbdd348bbdeb94873
train-labels-idx1-ubyte  a25bea736e30d166cdddb491f175f624  d53e105ee54ea40749a09fcbcd1e9432
t10k-images-idx3-ubyte   2646ac647ad5339dbf082846283269ea  9fb629c4189551a2d022fa330f9573f3
t10k-labels-idx1-ubyte   27ae3e4e09519cfbb04c329615203637  ec29112dd5afa0611ce80d1b7f02629c
"""
FILES = {line.split()[0]: line.split()[1:] for line in TABLE.strip().splitlines()}
SOURCES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


@dataclass(frozen=True)
class Digits:
    """Images of the digits 0 to 9, with labels.

    Attributes:
        name: The name of the data set.
        images: Training images, (count, height·width), float32 in [0, 1].
        labels: Their digits, (count,), int64.
        test_images: Test images.
        test_labels: Their digits.
        shape: Height and width of an image.

    >>> import fwnet
    >>> digits = fwnet.data.small_digits()
    >>> digits.images[0].reshape(digits.shape).shape, digits.labels[0]
    (torch.Size([8, 8]), tensor(0))
    """

    name: str
    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    shape: tuple[int, int]

    def split(self, num_validation: int, seed: int = 0) -> Digits:
        """Return the training images, split at random; `num_validation` become the test images."""
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
    """Return the 60,000 training and 10,000 test digits of MNIST (LeCun, Cortes and Burges).

    Args:
        folder: The folder of the four IDX files, gzipped or not, or its parent. Default:
            $FWNET_DATA/mnist; without it, the files are downloaded (12 MB) and kept.

    Every file is checked against its published MD5.

    >>> import fwnet
    >>> fwnet.data.load_mnist().images.shape
    torch.Size([60000, 784])
    """
    where = data_folder("mnist", folder)
    contents = [np.frombuffer(_read(where, name), np.uint8) for name in FILES]
    pixels = np.concatenate([content[16:] for content in contents[::2]]).reshape(-1, 28 * 28)
    labels = np.concatenate([content[8:] for content in contents[1::2]])
    return _digits("MNIST", pixels / np.float32(255), labels, 10_000, (28, 28))


def small_digits(num_test: int = 360) -> Digits:
    """Return scikit-learn's 1,797 digits of 8 × 8 pixels; the last `num_test` are test images.

    They need no download. They are sorted by writer, so most test writers are not trained on.

    >>> import fwnet
    >>> digits = fwnet.data.small_digits()
    >>> digits.images.shape, digits.test_images.shape, digits.shape
    (torch.Size([1437, 64]), torch.Size([360, 64]), (8, 8))
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return _digits("scikit-learn's digits", pixels / 16, labels, num_test, (8, 8))


def _digits(
    name: str, pixels: np.ndarray, labels: np.ndarray, num_test: int, shape: tuple[int, int]
) -> Digits:
    """Return digits of which the last `num_test` are test images."""
    images = torch.from_numpy(pixels.astype(np.float32, copy=False))
    digits = torch.from_numpy(labels.astype(np.int64))
    kept = len(images) - num_test
    return Digits(name, images[:kept], digits[:kept], images[kept:], digits[kept:], shape)


def _read(folder: Path | None, name: str) -> bytes:
    """Return the content of a file after a check."""
    checksum, archive_checksum = FILES[name]
    if folder is None:
        path = download("mnist", f"{name}.gz", f"md5:{archive_checksum}", SOURCES)
    else:
        packed = folder / f"{name}.gz"
        path = packed if packed.is_file() else folder / name
        if not path.is_file():
            raise DataError(
                f"expected {name}.gz or {name} in {folder}, got neither (without a folder and "
                f"without {DATA_VARIABLE}, MNIST is downloaded)"
            )
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != checksum:
        raise DataError(f"{path} is not a file of MNIST: expected the MD5 {checksum}, got {found}")
    return content
