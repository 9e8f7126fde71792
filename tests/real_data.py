"""Where the data sets of the paper may be: a folder that is named, or one beside the project."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("FWNET_DATA") or BESIDE)


def needs(*names):
    """Mark tests that need these data sets."""
    missing = [name for name in names if not (DATA / name).is_dir()]
    reason = f"{', '.join(missing)} not here (FWNET_DATA)"

    def mark(test):
        return pytest.mark.real_data(pytest.mark.skipif(bool(missing), reason=reason)(test))

    return mark
