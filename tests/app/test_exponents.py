import math
import threading

import pytest

import fwnet
from fwnet.app import exponents
from fwnet.app.exponents import explore, exponent_at, learn


def test_the_slider_reaches_every_p():
    assert [exponent_at(place) for place in (0, 0.5, 0.75, 1)] == [1, 2, 4, math.inf]


@pytest.mark.parametrize("place", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_every_p_has_figures_and_a_certificate(place):
    figure, words = explore(place, 0.5)
    assert figure.startswith("<svg")
    assert "#000000" not in figure  # black would be lost on a dark page
    assert "certified" in words


def test_a_larger_radius_explains_more():
    shares = [explore(0.25, share)[1].partition("explains ")[2] for share in (0.2, 1.0)]
    assert [float(one.partition("%")[0]) for one in shares] == [
        pytest.approx(50, abs=25),
        pytest.approx(100, abs=0.1),
    ]


def test_p_moves_towards_the_true_one(monkeypatch):
    monkeypatch.setattr(exponents, "NUM_EPOCHS", 6)
    monkeypatch.setattr(exponents, "NUM_SIGNALS", 2000)
    epochs = [words for _, words in learn(1.3, 2.0)]
    assert len(epochs) == 6
    learned = [float(words.partition("p = ")[2].partition(" ")[0]) for words in epochs]
    assert learned[-1] < learned[0] < 2.0


def test_leaving_stops_the_training(monkeypatch):
    monkeypatch.setattr(exponents, "NUM_SIGNALS", 2000)
    train, stopped = fwnet.training.train, []

    def watched(*arguments):
        try:
            return train(*arguments)
        except KeyboardInterrupt:
            stopped.append(True)
            raise

    monkeypatch.setattr(fwnet.training, "train", watched)
    threads = threading.active_count()
    leaving = learn(1.3, 2.0)
    next(leaving)
    leaving.close()
    assert stopped == [True]
    assert threading.active_count() == threads
