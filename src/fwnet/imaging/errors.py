"""What a user can mend, said in one line."""

from __future__ import annotations

from fwnet.errors import FwnetError

__all__ = ["ImageError"]


class ImageError(FwnetError):
    """An image, a file or an option that cannot be worked with, with what was expected."""
