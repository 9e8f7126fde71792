"""Files that are written whole or not at all."""

import os
from pathlib import Path

import pytest

from fwnet.files import locked, write_whole


@pytest.mark.parametrize("content", ["größer", b"\0\xff", lambda file: file.write(b"called")])
def test_text_bytes_and_functions(tmp_path, content):
    path = tmp_path / "file"
    write_whole(path, content)
    expected = {str: "größer".encode(), bytes: b"\0\xff"}.get(type(content), b"called")
    assert path.read_bytes() == expected
    assert list(tmp_path.iterdir()) == [path]


def test_the_content_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Otherwise a crash of the machine may leave the name with an empty file."""
    calls = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append("fsync"), fsync(file)))
    monkeypatch.setattr(
        Path,
        "replace",
        lambda self, target: (calls.append(f"{target.name}"), replace(self, target)),
    )
    write_whole(tmp_path / "file", "new")
    assert calls == ["fsync", "file"]


def test_readers_see_the_old_content_or_the_new(tmp_path):
    """A file that is open already keeps the old content, since the new one is another file."""
    path = tmp_path / "file"
    path.write_text("old")
    with path.open() as reader:
        write_whole(path, "new and longer")
        assert reader.read() == "old"
    assert path.read_text() == "new and longer"


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fails(file):
        file.write(b"half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write_whole(path, fails)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_locked_until_the_end_and_keeps_no_file(tmp_path):
    with locked(tmp_path):
        with pytest.raises(BlockingIOError), locked(tmp_path):
            pass
        assert not list(tmp_path.iterdir())
    with locked(tmp_path):
        pass
