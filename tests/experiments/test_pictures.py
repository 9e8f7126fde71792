import pytest

from fwnet.experiments import Result, Row
from fwnet.experiments.pictures import Bars, Curves, Lines, panels

ROWS = [
    Row("F-W Net", {"T": 2}, "PSNR", 33.0, paper=34.5, spread=0.2),
    Row("theirs", {"T": 2}, "PSNR", 31.0, paper=30.0),
    Row("others", {"T": 2}, "PSNR", 32.0),
    Row("F-W Net", {"T": 4}, "PSNR", 35.0, paper=36.0),
    Row("F-W Net", {"T": 4}, "SSIM", 0.9),
]


def drawn(*parts, details=None, rows=ROWS):
    result = Result("x", "", "", "", rows=rows, details=details or {})
    return panels(*parts)(result).axes


def test_bars_are_sorted_and_crosses_are_figures_of_the_paper():
    first, second = drawn(Bars(quantity="PSNR", by="T", title="T = "))
    assert [axis.get_title() for axis in (first, second)] == ["T = 2", "T = 4"]
    names = [label.get_text() for label in first.get_yticklabels()]
    assert names == ["theirs", "others", "F-W Net"]
    assert [bar.get_width() for bar in first.patches] == [31.0, 32.0, 33.0]
    colors = [bar.get_facecolor() for bar in first.patches]
    assert colors[0] == colors[1] != colors[2]
    crosses = {(line.get_xdata()[0], line.get_ydata()[0]) for line in first.lines}
    assert {(30.0, 0), (34.5, 2)} <= crosses
    low, high = first.get_xlim()
    assert 29 < low < 30
    assert 34.5 < high < 35.5


def test_bars_of_frank_wolfe_networks_are_darker():
    names = ("F-W Net", "FWNetClassifier", "conv_fwnet_t4.upscale_x3", "DnCNN")
    rows = [Row(name, {}, "PSNR", 30.0) for name in names]
    (axis,) = drawn(Bars(quantity="PSNR"), rows=rows)
    *ours, other = [bar.get_facecolor() for bar in axis.patches]
    assert len(set(ours)) == 1
    assert ours[0] != other


@pytest.mark.parametrize("rows", [ROWS[:1], []])
def test_few_bars(rows):
    (axis,) = drawn(Bars(quantity="PSNR"), rows=rows)
    assert len(axis.patches) == len(rows)


def test_lines_by_method_with_those_of_the_paper():
    (axis,) = drawn(Lines(x="T", quantity="PSNR", guide=33.0))
    assert axis.get_legend_handles_labels()[1] == [
        "F-W Net, the paper",
        "theirs, the paper",
        "F-W Net",
        "theirs",
        "others",
    ]
    paper = [line for line in axis.lines if line.get_label() == "F-W Net, the paper"]
    assert list(paper[0].get_ydata()) == [34.5, 36.0]


def test_curves_by_name_and_by_prefix():
    curves = {"p from 1": [1, 2], "p from 2": [2, 3], "other": {"count": 3}}
    some, all_of_them = drawn(Curves(prefix="p ", title="p"), Curves(), details=curves)
    assert [line.get_label() for line in some.lines] == ["from 1", "from 2"]
    assert len(all_of_them.lines) == 2
    assert some.get_xlabel() == "epoch"
