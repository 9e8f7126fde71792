"""`fwnet explore`: which p and radius suit the rows of a file, as one HTML page."""

from fwnet.explore.exploration import Cell, Exploration, explore
from fwnet.explore.page import recommendation, write_page

__all__ = ["Cell", "Exploration", "explore", "recommendation", "write_page"]
