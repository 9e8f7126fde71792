"""All targets: importing this fills the registry."""

from tests.fuzz import commands, files, functions, images, unit
from tests.fuzz.registry import TARGETS

__all__ = ["TARGETS", "commands", "files", "functions", "images", "unit"]
