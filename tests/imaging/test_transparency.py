"""What is fully transparent must not be seen in what is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwnet.imaging.transparency import keep_hidden, spread_visible


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99), st.sampled_from([1, 3]))
def test_hidden_places_get_the_nearest_visible_color(height, width, seed, channels):
    random = np.random.default_rng(seed)
    colors = random.integers(0, 256, (height, width, channels), np.uint8)
    alpha = random.choice(np.array([0, 0, 1, 255], np.uint8), (height, width))
    before = colors.copy()
    spread = spread_visible(colors, alpha)
    assert np.array_equal(colors, before)
    visible = np.argwhere(alpha > 0)
    for place in np.ndindex(height, width):
        if alpha[place] > 0 or not len(visible):
            assert np.array_equal(spread[place], colors[place])
            continue
        distances = np.linalg.norm(visible - place, axis=1)
        nearest = visible[distances == distances.min()]
        assert any(np.array_equal(spread[place], colors[tuple(one)]) for one in nearest)


@pytest.mark.parametrize("alpha", [0, 255])
def test_nothing_is_copied_where_nothing_changes(alpha):
    colors = np.zeros((4, 5, 3), np.uint8)
    assert spread_visible(colors, np.full((4, 5), alpha, np.uint8)) is colors


@given(st.integers(1, 7), st.integers(1, 7), st.integers(2, 4), st.integers(0, 99))
def test_what_stays_hidden_keeps_its_color(height, width, scale, seed):
    random = np.random.default_rng(seed)
    colors = random.random((height, width, 3))
    large = random.random((scale * height, scale * width, 3))
    alpha = random.choice([0.0, 0.5], large.shape[:2])
    result = large.copy()
    keep_hidden(result, alpha, colors)
    blocks = np.kron(colors, np.ones((scale, scale, 1)))
    assert np.array_equal(result, np.where(alpha[..., None] > 0, large, blocks))
