"""Kills at every change of a file, and what else can go wrong around a command."""

import os
import shutil
import sys
import threading

import numpy as np
import pytest

from fwnet.files import remove_unfinished, write_whole
from tests.fault_kinds import FAULTS, try_fault
from tests.fault_works import WORKS, content, make_photo
from tests.forked import Command, dies_at_change

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="forks, limits and signals are another matter there"
)
CHANGES = {"denoise": 48}  # of files, in one run
QUICK = ("SIGTERM", "clock", "input vanishes", "output vanishes")
QUICK += ("stdout full", "stderr closed")


@pytest.fixture(scope="module", params=CHANGES)
def whole(request, tmp_path_factory):
    """A work, a folder in which it is done, what it wrote there, and how long it took."""
    work = WORKS[request.param]
    folder = tmp_path_factory.mktemp("whole") / "work"
    folder.mkdir()
    work.make(folder)
    inputs = {path.name for path in folder.iterdir()}
    command = Command(work.arguments, folder, log=folder.parent).start()
    assert command.wait() == 0, command.err.read_text()
    return request.param, folder, inputs, content(folder, work.results)


def start_over(folder, inputs):
    for path in folder.iterdir():
        if path.name not in inputs:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("kind", QUICK)
def test_faults(whole, kind):
    """Results are whole or absent, one line says why, and the next run ends as ever."""
    name, folder, inputs, expected = whole
    start_over(folder, inputs)
    tried = try_fault(FAULTS[kind], WORKS[name], folder, f"{kind} {name}", 0.3, expected)
    assert not tried["wrong"], tried


@pytest.mark.parametrize("share", [0, 0.3, 0.6, 1])
def test_kills_between_two_changes(whole, share):
    """SIGKILL before a change of the output, the first, the last and some between."""
    name, folder, inputs, expected = whole
    work = WORKS[name]
    start_over(folder, inputs)
    number = 1 + round(share * CHANGES[name])
    command = Command(work.arguments, folder, dies_at_change(number, folder), folder.parent)
    assert command.start().wait() == -9
    again = Command(work.again, folder, log=folder.parent).start()
    assert again.wait() == 0, again.err.read_text()
    assert content(folder, work.results) == expected
    assert {path.name for path in folder.iterdir()} == {*inputs, *work.results}


def test_only_one_of_two_processes_writes_a_file(tmp_path):
    """Without --force, the second does not replace what the first has written meanwhile."""
    for number in range(2):
        make_photo(tmp_path / f"{number}.png", 32, number)
    started = [
        Command(f"denoise {number}.png clean.png --sigma 25 --fast", tmp_path, log=tmp_path / log)
        for number, log in enumerate("ab")
    ]
    for command in started:
        command.log.mkdir()
        command.start()
    assert sorted(command.wait() for command in started) == [0, 2]
    refused = next(command for command in started if command.status == 2)
    assert refused.err.read_text() == "Error: clean.png exists; overwrite it with --force\n"


def test_a_file_that_appears_while_another_is_written_is_kept(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(FileExistsError, match="file"):
        write_whole(path, lambda _: path.write_text("theirs"), replace=False)
    assert path.read_text() == "theirs"
    assert [*tmp_path.iterdir()] == [path]


def test_disks_without_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_whole(tmp_path / "file", "first", replace=False)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", "second", replace=False)
    assert (tmp_path / "file").read_text() == "first"


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path):
    names = (".x.png-0123abcd.tmp", ".y.png-0123abcd.tmp", ".x.png-012.tmp", "x.png")
    for name in names:
        (tmp_path / name).touch()
    remove_unfinished([tmp_path / "x.png", tmp_path / "none" / "x.png"])
    assert {path.name for path in tmp_path.iterdir()} == {*names[1:]}


def test_what_is_being_written_is_not_removed(tmp_path):
    """While another thread removes all the time, as another process might."""
    path, ended = tmp_path / "x.png", threading.Event()

    def remove():
        while not ended.is_set():
            remove_unfinished([path])

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        for number in range(50):
            write_whole(path, str(number))
            assert path.read_text() == str(number)
    finally:
        ended.set()
        thread.join()


def test_a_comparison_is_written_before_its_result(tmp_path):
    """Otherwise --skip-existing would leave it out after a kill between the two."""
    make_photo(tmp_path / "x.png", 32, 0)
    words = "denoise x.png clean.png --sigma 25 --fast --compare --skip-existing"
    for number in range(1, 9):
        Command(words, tmp_path, dies_at_change(number, tmp_path)).start().wait()
        if (tmp_path / "clean.png").exists():
            break
    assert (tmp_path / "clean-compare.png").exists()


@pytest.mark.parametrize(
    "words",
    ["encode x.npy -o loop --p 1.3 --radius 1", "train coder x.npy x.npy -o loop --batch-size 1"],
)
def test_links_in_a_circle(tmp_path, words):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    (tmp_path / "loop").symlink_to("loop")
    command = Command(words, tmp_path).start()
    assert command.wait() == 2
    assert len(command.err.read_text().splitlines()) == 1


def test_out_is_no_value_of_a_flag(tmp_path):
    make_photo(tmp_path / "x.png", 32, 0)
    command = Command("denoise x.png y.png --force true", tmp_path).start()
    assert command.wait() == 2
    assert "options such as --force take no value" in command.err.read_text()
    assert not (tmp_path / "true").exists()


def test_a_folder_with_many_other_files(tmp_path):
    for number in range(3000):
        (tmp_path / f"{number}.txt").touch()
    make_photo(tmp_path / "x.png", 32, 0)
    command = Command(["denoise", tmp_path, "clean", "--sigma", 25, "--fast"], tmp_path.parent)
    assert command.start().wait() == 0
    assert len(command.err.read_text().splitlines()) == 1
