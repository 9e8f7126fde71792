"""What an image file says beside the pixels: EXIF, color profile, resolution."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

from PIL import ExifTags, Image, ImageCms

from fwnet.imaging.exif_sizes import EXIF_NAME, with_size

__all__ = ["EXIF_NAME", "Metadata", "read_metadata", "without_inks"]

# What a TIFF file says of the picture rather than of how it is stored.
KEPT_TAGS = tuple(
    ExifTags.Base[name]
    for name in ("ImageDescription", "Make", "Model", "DateTime", "Artist", "Copyright")
)
KEPT_BLOCKS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class Metadata:
    """What belongs to an image and is not its pixels.

    Attributes:
        exif: The EXIF block, with its name in front.
        profile: The ICC profile of its colors.
        dpi: Pixels per inch, across and down.
    """

    exif: bytes | None = None
    profile: bytes | None = None
    dpi: tuple[float, float] | None = None

    @property
    def orientation(self) -> int:
        """How a viewer is to turn the image, as EXIF counts: 1 for not at all, up to 8."""
        tags = Image.Exif()
        try:
            tags.load(self.exif or b"")
            value = tags.get(ExifTags.Base.Orientation, 1)
        except Exception:  # whatever a damaged block makes of a parser
            return 1
        return value if value in range(1, 9) else 1

    def with_little_exif(self) -> Metadata:
        """The same with no more EXIF than the orientation."""
        tags = Image.Exif()
        tags[ExifTags.Base.Orientation] = self.orientation
        return replace(self, exif=tags.tobytes())

    def enlarged(self, width: int, height: int, scale: int) -> Metadata:
        """The same for the image enlarged to width × height: in print it is as large as before.

        EXIF tells the new size, and the resolution is `scale` times what it was.
        """
        exif = None if self.exif is None else with_size(self.exif, width, height, scale)
        dpi = None if self.dpi is None else (scale * self.dpi[0], scale * self.dpi[1])
        return replace(self, exif=exif, dpi=dpi)

    def turned(self, image: Image.Image) -> Image.Image:
        """The image as a viewer shows it."""
        turn = TURNS.get(self.orientation)
        return image if turn is None else image.transpose(turn)


def read_metadata(image: Image.Image) -> Metadata:
    """Gather what a file says of its image. Of a TIFF, load it before: that turns the image."""
    profile = image.info.get("icc_profile")
    return Metadata(_exif(image), profile or None, _dpi(image))


def _exif(image: Image.Image) -> bytes | None:
    block = image.info.get("exif")
    if isinstance(block, bytes):  # that of WebP has no name in front, which JPEG needs
        return EXIF_NAME + block.removeprefix(EXIF_NAME)
    if image.format != "TIFF":
        return None
    found, kept = image.getexif(), Image.Exif()
    for tag in KEPT_TAGS:
        if tag in found:
            kept[tag] = found[tag]
    blocks = {tag: found.get_ifd(tag) for tag in KEPT_BLOCKS}
    for block_tag, values in blocks.items():
        if values:
            kept.get_ifd(block_tag).update(values)
    return kept.tobytes() if len(kept) or any(blocks.values()) else None


def _dpi(image: Image.Image) -> tuple[float, float] | None:
    dpi = image.info.get("dpi")
    try:
        across, down = (float(value) for value in dpi)  # type: ignore[union-attr]
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return (across, down) if 0 < across < 1e6 and 0 < down < 1e6 else None


def without_inks(image: Image.Image, about: Metadata) -> tuple[Image.Image, Metadata]:
    """Bring CMYK and Lab to RGB by their profile, if any, which would be wrong beside RGB."""
    if image.mode not in ("CMYK", "LAB"):
        return image, about
    plain = Metadata(about.exif, None, about.dpi)
    if about.profile:
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(about.profile))
            screen = ImageCms.createProfile("sRGB")
            converted = ImageCms.profileToProfile(image, source, screen, outputMode="RGB")
            if converted is not None:
                return converted, plain
        except (ImageCms.PyCMSError, OSError):
            pass  # a damaged profile is as good as none
    return image.convert("RGB"), plain
