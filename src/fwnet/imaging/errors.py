"""What a user can mend, said in one line."""

from __future__ import annotations

__all__ = ["ImageError"]


class ImageError(ValueError):
    """An image, a file or an option that cannot be worked with, with what was expected."""
