"""The licenses of all packages that fwnet needs, from what is installed.

`python -m tests.licenses --page docs/licenses.md` writes the page anew.
"""

import argparse
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

HEAD = """# Licenses of the dependencies

fwnet is under the MIT license. These are the packages that its core and its extras need, with all
that those need in turn, and the license that each states in its metadata. A test compares the page
with what is installed. Not installed for development: `bm3d` (not for commercial use), `deepinv`
(BSD) and `ray` (Apache-2.0). Wheels contain libraries of others, whose licenses are in the wheels:
pillow-heif, the extra `heif`, contains x265 (GPL); torch for CUDA needs the `nvidia-…` packages,
which are proprietary.

Written by `python -m tests.licenses --page docs/licenses.md`.

| package | license | needed by |
|---|---|---|
"""
CORE = "fwnet"
NOT_FOR_DEVELOPMENT = ("bm3d", "deepinv", "ray")
# By the words of a classifier or of a text, where a package has no SPDX expression.
WORDS = {
    "Mozilla Public License 2.0": "MPL-2.0",
    "Apache": "Apache-2.0",
    "BSD": "BSD",
    "Copyright (c) 2015, matplotlib project": "BSD",
    "Python Software Foundation": "PSF-2.0",
    "ISC": "ISC",
    "MIT": "MIT",
    "MPL-2.0": "MPL-2.0",
    "Zope": "ZPL-2.1",
    "Unlicense": "Unlicense",
    "GPL": "GPL",
}


def installed() -> dict[str, tuple[str, str]]:
    """Return license and extra, or fwnet itself, of every package that is needed and installed."""
    found: dict[str, tuple[str, str]] = {}
    for requirement in map(Requirement, distribution(CORE).requires or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            _walk(requirement, CORE, found)
    extras = distribution(CORE).metadata.get_all("Provides-Extra", [])
    extras = [extra for extra in extras if extra not in NOT_FOR_DEVELOPMENT]
    for extra in sorted(extras, key=lambda name: (name == "dev", name)):
        for requirement in map(Requirement, distribution(CORE).requires or []):
            wanted = requirement.marker and requirement.marker.evaluate({"extra": extra})
            if wanted and requirement.name != CORE:
                _walk(requirement, extra, found)
    return dict(sorted(found.items()))


def _walk(requirement: Requirement, asked: str, found: dict[str, tuple[str, str]]) -> None:
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    if name in found:
        return
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return
    found[name] = (license_of(package), asked)
    for inner in map(Requirement, package.requires or []):
        extras = ("", *requirement.extras)
        if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in extras):
            _walk(inner, asked, found)


def license_of(package: Distribution) -> str:
    """Return the license of a package: its SPDX expression, or what its metadata say in words."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return str(expression)
    stated = [line for line in about.get_all("Classifier", []) if line.startswith("License")]
    for text in (*stated, (about.get("License") or "")[:200]):
        for words, name in WORDS.items():
            if words in text:
                return name
    return "not stated"


def page() -> str:
    """Return the page of all licenses."""
    rows = [f"| {name} | {text} | {asked} |" for name, (text, asked) in installed().items()]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, required=True)
    parser.parse_args().page.write_text(page(), encoding="utf-8")
