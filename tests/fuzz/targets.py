"""All targets: importing this fills the registry."""

from tests.fuzz import files, images, unit
from tests.fuzz.registry import TARGETS

__all__ = ["TARGETS", "files", "images", "unit"]
