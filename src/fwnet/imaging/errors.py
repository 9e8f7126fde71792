"""The error of images and image files."""

from fwnet.errors import FwnetError


class ImageError(FwnetError):
    """An image, a file or an option that cannot be used; the message says what was expected."""
