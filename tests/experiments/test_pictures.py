import pytest

from fwnet.experiments import Row
from fwnet.experiments.pictures import bars, new_figure


def drawn(rows):
    _, axis = new_figure()
    bars(axis, rows, lambda row: row.method == "ours", title="some")
    return axis


def test_bars_grow_from_below_and_crosses_are_where_the_paper_is():
    rows = [
        Row("ours", {}, "PSNR", 33.0, paper=34.5, spread=0.2),
        Row("theirs", {}, "PSNR", 31.0, paper=30.0),
        Row("others", {}, "PSNR", 32.0),
    ]
    axis = drawn(rows)
    assert [label.get_text() for label in axis.get_yticklabels()] == ["theirs", "others", "ours"]
    assert [bar.get_width() for bar in axis.patches] == [31.0, 32.0, 33.0]
    colors = [bar.get_facecolor() for bar in axis.patches]
    assert colors[0] == colors[1] != colors[2]
    crosses = {
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axis.lines
        if line.get_marker() == "X"
    }
    assert crosses == {(30.0, 0), (34.5, 2)}
    low, high = axis.get_xlim()
    assert 29 < low < 30
    assert 34.5 < high < 35.5
    assert axis.get_title() == "some"


@pytest.mark.parametrize("paper", [None, 30.0])
def test_one_bar_is_enough(paper):
    low, high = drawn([Row("ours", {}, "PSNR", 30.0, paper=paper)]).get_xlim()
    assert low < 30 < high
