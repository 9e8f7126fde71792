"""Which files are meant, and where they go."""

import os
from pathlib import Path

import pytest

from fwnet.imaging.file_lists import compare_path, list_jobs
from fwnet.imaging.pixels import ImageError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """photos/ with a.jpg, b.PNG, sub/a.jpg, sub/c.gif, a text and hidden files; x.png; empty/."""
    monkeypatch.chdir(tmp_path)
    names = ["a.jpg", "b.PNG", "sub/a.jpg", "sub/c.gif", "notes.txt", ".hidden.png", ".git/d.png"]
    for name in (*(f"photos/{name}" for name in names), "x.png", "[1].png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("empty").mkdir()
    return tmp_path


def pairs(inputs, output):
    jobs = list_jobs(inputs, output)
    assert all(job.problem is None for job in jobs)
    return [(job.source.as_posix(), job.place.as_posix()) for job in jobs]


def problems(inputs, output):
    return [job.problem for job in list_jobs(inputs, output) if job.problem]


def test_one_file(folder):
    assert pairs(["x.png"], "y.jpg") == [("x.png", "y.jpg")]
    assert pairs(["x.png"], "empty") == [("x.png", "empty/x.png")]
    assert pairs(["x.png"], "new/") == [("x.png", "new/x.png")]
    assert pairs(["photos/sub/c.gif"], "empty") == [("photos/sub/c.gif", "empty/c.png")]
    assert pairs(["[1].png"], "y.png") == [("[1].png", "y.png")]
    assert pairs(["nosuch.png"], "y.png") == [("nosuch.png", "y.png")]


@pytest.mark.parametrize("output", ["y", "y.xyz", "y.gif"])
def test_one_file_to_an_unknown_format(folder, output):
    with pytest.raises(ImageError, match=r"expected a name that ends in .png"):
        list_jobs(["x.png"], output)


INSIDE = [
    ("photos/a.jpg", "a.jpg"),
    ("photos/b.PNG", "b.PNG"),
    ("photos/sub/a.jpg", "sub/a.jpg"),
    ("photos/sub/c.gif", "sub/c.png"),
]


def test_a_folder_keeps_its_structure(folder):
    assert pairs(["photos"], "out") == [(source, f"out/{name}") for source, name in INSIDE]
    assert pairs(["photos/"], "out/") == pairs(["photos"], "out")


def test_folders_beside_others_keep_their_names(folder):
    expected = [(source, f"out/photos/{name}") for source, name in INSIDE]
    assert pairs(["photos", "x.png"], "out") == [*expected, ("x.png", "out/x.png")]


def test_earlier_results_in_a_folder_are_left_alone(folder):
    Path("photos/out").mkdir()
    Path("photos/out/a.jpg").touch()
    assert len(pairs(["photos"], "photos/out")) == len(INSIDE)


def test_patterns(folder):
    assert pairs(["*.png"], "out") == [("[1].png", "out/[1].png"), ("x.png", "out/x.png")]
    assert pairs(["photos/**/*.gif"], "out/") == [("photos/sub/c.gif", "out/c.png")]
    assert pairs([str(folder / "photos" / "?.jpg")], "out")[0][1] == "out/a.jpg"
    assert pairs(["phot*"], "out")[0] == ("photos/a.jpg", "out/photos/a.jpg")
    assert problems(["*.webp"], "out") == ["no file matches *.webp"]


def test_a_place_is_given_once(folder):
    jobs = list_jobs(["photos/a.jpg", "photos/sub/a.jpg"], "out")
    assert [job.problem is None for job in jobs] == [True, False]
    first, second, place = Path("photos/a.jpg"), Path("photos/sub/a.jpg"), Path("out/a.jpg")
    assert jobs[1].problem == f"{second} would go to {place}, as {first} does"
    assert pairs(["x.png", "./x.png", "x.*"], "out") == [("x.png", "out/x.png")]


def test_folders_that_cannot_be_listed_are_named(folder, monkeypatch):
    """The others are not passed over, and "no images" is not said of what nobody has seen."""
    scandir = os.scandir

    def failing(path):
        if Path(path) in (Path("photos/sub"), Path("empty")):
            raise OSError(24, "Too many open files", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    message = "cannot be read: Too many open files"
    assert problems(["empty"], "out") == [f"empty {message}"]
    assert problems(["photos"], "out") == [f"photos/sub {message}"]
    assert Path("out/a.jpg") in [job.place for job in list_jobs(["photos"], "out")]


def test_what_has_no_images(folder):
    assert problems(["empty"], "out") == ["empty has no images in it"]
    assert problems(["empty", "x.png"], "out") == ["empty has no images in it"]


def test_several_files_need_a_folder(folder):
    for inputs in (["x.png", "photos/a.jpg"], ["photos"], ["*.png"]):
        with pytest.raises(ImageError, match=r"go into a folder, and x.png is a file"):
            list_jobs(inputs, "x.png")


@pytest.mark.parametrize("output", ["new.png", "new.tif", "new.gif", "new.heic"])
def test_a_folder_is_not_named_like_an_image(folder, output):
    for inputs in (["x.png", "photos/a.jpg"], ["photos"], ["*.png"]):
        with pytest.raises(ImageError, match=rf"and {output} is named like an image; .* {output}/"):
            list_jobs(inputs, output)
        assert list_jobs(inputs, f"{output}/") == list_jobs(inputs, f"./{output}/")


def test_files_that_become_png_make_way(folder):
    for name in ("a.avif", "a.png", "b.gif", "b.heic", "c.gif", "d.gif", "d.gif.png", "d.png"):
        Path("empty", name).touch()
    expected = {
        "a.avif": "a.avif.png", "a.png": "a.png", "b.gif": "b.gif.png", "b.heic": "b.heic.png",
        "c.gif": "c.png", "d.gif.png": "d.gif.png", "d.png": "d.png",
    }  # fmt: skip
    jobs = list_jobs(["empty"], "out")
    found = {job.source.name: job.place.name for job in jobs if job.problem is None}
    assert found == expected
    assert problems(["empty"], "out") == [
        "empty/d.gif would go to out/d.gif.png, as empty/d.gif.png does"
    ]
    assert pairs(["empty/c.gif", "./empty/c.gif"], "out") == [("empty/c.gif", "out/c.png")]


def lines(inputs):
    found = []
    list_jobs(inputs, "out", warn=found.append)
    return found


def test_files_that_are_no_images_are_listed(folder):
    assert lines(["photos"]) == ["1 file skipped, not named as an image: notes.txt."]
    assert lines(["x.png", "[1].png"]) == lines(["photos/*.jpg"]) == lines(["empty"]) == []
    for name in ("photos/a.xmp", "photos/Thumbs.db", "photos/.DS_Store", "photos/sub/film.mov"):
        Path(name).touch()
    assert lines(["photos"]) == ["2 files skipped, not named as images: notes.txt, sub/film.mov."]
    Path("photos/1.CR2").touch()
    for index in range(7):
        Path(f"empty/{index}.txt").touch()
    assert lines(["photos", "empty"]) == [
        "10 files skipped, not named as images: 1.CR2, notes.txt, sub/film.mov, 0.txt, 1.txt and "
        "5 more (camera raw files are not supported: export as TIFF or JPEG first)."
    ]


def test_compare_path():
    assert compare_path(Path("out/a.b.jpg")) == Path("out/a.b-compare.png")
    assert compare_path(Path("out/a.jpg"), with_suffix=True) == Path("out/a.jpg-compare.png")


def compared(inputs, output):
    jobs = list_jobs(inputs, output, compare=True)
    return [(job.place.name, job.compared and job.compared.name, job.problem) for job in jobs]


def test_comparisons_have_places_of_their_own(folder):
    assert compared(["x.png"], "y.jpg") == [("y.jpg", "y-compare.png", None)]
    for name in ("a.png", "a-compare.png", "b.png", "b.tif", "b.webp"):
        Path("empty", name).touch()
    assert compared(["empty"], "out") == [
        ("a-compare.png", "a-compare-compare.png", None),
        ("a.png", "a.png-compare.png", None),
        ("b.png", "b.png-compare.png", None),
        ("b.tif", "b.tif-compare.png", None),
        ("b.webp", "b.webp-compare.png", None),
    ]
    assert all(job.compared is None for job in list_jobs(["empty"], "out"))


def test_a_comparison_without_a_place_is_told(folder):
    for name in ("a.png", "a-compare.png", "a.png-compare.png"):
        Path("empty", name).touch()
    problems = [problem for *_, problem in compared(["empty"], "out")]
    path, needed = Path("out/a.png-compare.png"), Path("empty/a.png-compare.png")
    expected = f"the comparison of empty/a.png would go to {path}, which {needed} needs"
    assert [problem for problem in problems if problem] == [expected]


def test_a_comparison_is_not_written_over_its_source(folder):
    Path("b-compare.png").touch()
    assert compared(["b-compare.png"], "b.png") == [("b.png", "b.png-compare.png", None)]


def test_names_that_cannot_be_looked_at_are_files(folder):
    long = "x" * 300 + ".png"
    assert pairs([long], "y.png") == [(long, "y.png")]
    assert pairs(["x.png"], long) == [("x.png", long)]
    assert pairs(["x.png", long], "out") == [("x.png", "out/x.png"), (long, f"out/{long}")]
    Path("loop.png").symlink_to("loop.png")
    assert pairs(["x.png", "loop.png"], "out")[1] == ("loop.png", "out/loop.png")
