"""A short part of the fuzzing, always the same, and every case that failed once."""

import pytest

from tests.fuzz.targets import TARGETS

SHORT = [name for name, one in TARGETS.items() if one.examples]


@pytest.mark.parametrize("name", SHORT)
def test_target(name, tmp_path, monkeypatch):
    one = TARGETS[name]
    if reason := one.missing():
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    one.run(one.bounded, one.examples)
