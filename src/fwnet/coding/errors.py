"""What a user can mend, said in one line."""

from __future__ import annotations

from fwnet.errors import FwnetError

__all__ = ["EncodeError"]


class EncodeError(FwnetError):
    """A file, an option or a disk that does not allow the encoding, with what was expected."""
