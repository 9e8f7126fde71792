"""The picture in docs/architecture.md names every room of the package."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def test_every_room_is_in_the_picture():
    package = PROJECT / "src" / "fwnet"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    rooms |= {path.stem for path in package.glob("*.py")} - {"__init__", "__main__", "version"}
    picture = (PROJECT / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    assert set(re.findall(r'font-weight="bold"[^>]*>(\w+)<', picture)) == rooms
