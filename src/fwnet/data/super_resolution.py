"""The images of super-resolution: T91 for training, Set5 and Set14 for testing."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fwnet.data.folders import DATA_VARIABLE, DataError, data_folder
from fwnet.data.images import image_files, read_pixels


@dataclass(frozen=True)
class PublishedSet:
    """A published set of images, in any lossless format.

    Attributes:
        title: Its usual name; that of its folder has small letters.
        count: The number of images.
        archive: The usual archive to take them from.
        content: MD5 of the names, shapes and pixels of all images.
    """

    title: str
    count: int
    archive: str
    content: str

    def files(self, folder: str | Path | None = None) -> list[Path]:
        """Return the files of the images, sorted by name; see `t91_files`."""
        # There is no download: the published URLs are dead or not the authors'.
        where = data_folder(self.title.lower(), folder)
        if where is None:
            raise self._error(
                f"expected the images of {self.title} in the folder {self.title.lower()} of "
                f"{DATA_VARIABLE}, got no such folder"
            )
        files = image_files(where)
        if len(files) != self.count:
            raise self._error(
                f"expected the {self.count} images of {self.title} in {where}, got {len(files)}"
            )
        digest = hashlib.md5(usedforsecurity=False)
        for path in sorted(files, key=lambda path: path.stem):
            pixels = read_pixels(path, None)
            digest.update(f"{path.stem} {pixels.shape}".encode() + pixels.tobytes())
        if digest.hexdigest() != self.content:
            raise self._error(
                f"{where} does not hold the images of {self.title} as they are published: expected "
                f"the MD5 {self.content} of names and pixels, got {digest.hexdigest()}"
            )
        return files

    def _error(self, message: str) -> DataError:
        return DataError(
            f"{message}; usually they are taken from the archive {self.archive} of LapSRN "
            "(Lai et al., 2017)"
        )


T91 = PublishedSet("T91", 91, "SR_training_datasets.zip", "c8423a93d031b88e0f270d3f08b4ced6")
SET5 = PublishedSet("Set5", 5, "SR_testing_datasets.zip", "85ee04231a16e37d0e3fb6c7b06ee9f1")
SET14 = PublishedSet("Set14", 14, "SR_testing_datasets.zip", "52f5f07bb92e21d55010f28e3864a471")


def t91_files(folder: str | Path | None = None) -> list[Path]:
    """Return the files of the 91 training images of Yang et al. (2010).

    Args:
        folder: The folder of the images, or its parent. Default: t91 in $FWNET_DATA. There is no
            download; an error says where to get them.

    Names and pixels are checked against their MD5; PNG and BMP give the same.

    >>> import fwnet
    >>> len(fwnet.data.t91_files())
    91
    """
    return T91.files(folder)


def set5_files(folder: str | Path | None = None) -> list[Path]:
    """Return the files of the 5 test images of Bevilacqua et al. (2012); see `t91_files`.

    >>> import fwnet
    >>> [path.stem for path in fwnet.data.set5_files()]
    ['baby', 'bird', 'butterfly', 'head', 'woman']
    """
    return SET5.files(folder)


def set14_files(folder: str | Path | None = None) -> list[Path]:
    """Return the files of the 14 test images of Zeyde et al. (2010); see `t91_files`.

    >>> import fwnet
    >>> len(fwnet.data.set14_files())
    14
    """
    return SET14.files(folder)
