"""Orthogonal matching pursuit is what scikit-learn's is, for many rows at once."""

import importlib
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import orthogonal_mp, orthogonal_mp_gram

from fwnet.solvers import omp
from tests.solvers.problems import gaussian

MODULE = importlib.import_module("fwnet.solvers.omp")


def scikit_learn(x, dictionary, num_nonzeros=None, noise=None):
    """The codes of scikit-learn's pursuit, which goes row by row."""
    atoms, signals = dictionary.double().numpy(), x.double().numpy()
    limits = {"n_nonzero_coefs": num_nonzeros}
    if noise is not None:
        limits = {"tol": noise**2 * x.shape[1], "norms_squared": (signals**2).sum(-1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a pursuit that ends early
        code = orthogonal_mp_gram(atoms.T @ atoms, atoms.T @ signals.T, **limits)
    return torch.from_numpy(np.ascontiguousarray(code.T).reshape(len(x), -1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_that_of_the_signals_themselves(dtype):
    x, dictionary = gaussian(12, 8, 15, dtype=dtype)
    code = omp(x.reshape(3, 4, 8), dictionary, 3)
    assert code.shape == (3, 4, 15)
    assert code.dtype == dtype
    expected = orthogonal_mp(dictionary.double().numpy(), x.T.double().numpy(), n_nonzero_coefs=3)
    torch.testing.assert_close(
        code.reshape(12, 15).double(), torch.from_numpy(expected.T.copy()), atol=1e-5, rtol=1e-5
    )


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 20),
    m=st.integers(2, 40),
    share=st.floats(0.0, 0.8),
)
def test_so_many_nonzeros_as_scikit_learn_has_them(seed, n, m, share):
    x, dictionary = gaussian(7, n, m, seed)
    k = max(1, int(share * min(n, m)))
    code = omp(x, dictionary, k)
    torch.testing.assert_close(code, scikit_learn(x, dictionary, k), atol=1e-8, rtol=1e-8)
    assert ((code != 0).sum(-1) == k).all()


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 20), noise=st.floats(0.1, 1.5))
def test_up_to_the_noise_as_scikit_learn_goes(seed, n, noise):
    x, dictionary = gaussian(7, n, 2 * n, seed)
    x = x[x.square().sum(-1) > noise**2 * n]  # of others scikit-learn makes codes all the same
    if len(x):
        expected = scikit_learn(x, dictionary, noise=noise)
        torch.testing.assert_close(omp(x, dictionary, noise=noise), expected, atol=1e-8, rtol=1e-8)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), noise=st.floats(0.01, 2.0))
def test_stops_at_the_noise(seed, noise):
    x, dictionary = gaussian(10, 6, 12, seed)
    code = omp(x, dictionary, noise=noise)
    left = (x - code @ dictionary.T).square().sum(-1)
    assert (left <= noise**2 * 6 * (1 + 1e-9)).all()
    quiet = x.square().sum(-1) <= noise**2 * 6
    assert (code[quiet] == 0).all()
    assert (code[~quiet] != 0).any(-1).all()


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 8))
def test_what_is_left_is_orthogonal_to_the_atoms_of_a_code(seed, k):
    x, dictionary = gaussian(10, 8, 15, seed)
    code = omp(x, dictionary, k)
    correlation = (x - code @ dictionary.T) @ dictionary
    scale = code.abs().amax()
    assert (correlation * (code != 0)).abs().max() <= 1e-10 * (1 + scale)


@pytest.mark.parametrize("form", [{"num_nonzeros": 4}, {"noise": 0.2}])
def test_chunks_make_no_difference(form, monkeypatch):
    x, dictionary = gaussian(50, 8, 15)
    x[::7] = 0
    whole = omp(x, dictionary, **form)
    monkeypatch.setattr(MODULE, "CHUNK_ENTRIES", 3 * 15)
    torch.testing.assert_close(omp(x, dictionary, **form), whole, atol=1e-12, rtol=1e-12)


def test_rows_end_on_their_own():
    """Of a code with two nonzeros nothing is left after two atoms; other rows go on."""
    x, dictionary = gaussian(40, 30, 60)
    x[::2] = 2.0 * dictionary[:, :20].T - 3.0 * dictionary[:, 20:40].T
    counts = (omp(x, dictionary, 10) != 0).sum(-1)
    assert (counts[1::2] == 10).all()
    assert (counts[::2] < 10).double().mean() > 0.7  # where the greedy choice was right
    torch.testing.assert_close(
        omp(x, dictionary, noise=0.0) @ dictionary.T, x, atol=1e-6, rtol=1e-6
    )


def test_doubles_of_atoms_and_zeros_are_not_chosen_again():
    x, dictionary = gaussian(30, 4, 3)
    once = omp(x, dictionary, 3)
    twice = torch.cat([dictionary, -dictionary, 0 * dictionary, dictionary], dim=1)
    for form in ({"num_nonzeros": 4}, {"noise": 0.0}):
        code = omp(x, twice, **form)
        assert code.isfinite().all()
        assert ((code != 0).sum(-1) <= 3).all()
        torch.testing.assert_close(code @ twice.T, once @ dictionary.T, atol=1e-6, rtol=1e-6)
    assert (omp(x, 0 * dictionary, 2) == 0).all()


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_makes_no_difference(scale):
    x, dictionary = gaussian()
    torch.testing.assert_close(
        omp(scale * x, dictionary, 5) / scale, omp(x, dictionary, 5), atol=1e-10, rtol=1e-10
    )


def test_atoms_that_are_nearly_the_same():
    """Coefficients of 1e5 in float64: the residual is as small as least squares makes it."""
    x, dictionary = gaussian(20, 6, 6)
    dictionary[:, 1] = dictionary[:, 0] + 1e-5 * dictionary[:, 1]
    dictionary /= dictionary.norm(dim=0)
    code = omp(x, dictionary, 6)
    torch.testing.assert_close(code @ dictionary.T, x, atol=1e-5, rtol=1e-5)


def test_one_row_and_rows_of_zero():
    x, dictionary = gaussian(3)
    x[1] = 0
    assert omp(x[0], dictionary, 2).shape == (15,)
    assert (omp(x, dictionary, 2)[1] == 0).all()
    assert (omp(x, dictionary, noise=0.1)[1] == 0).all()
    assert omp(x[:0], dictionary, 2).shape == (0, 15)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("form", [{"num_nonzeros": 5}, {"noise": 0.3}])
def test_a_gpu_gives_the_same(form):
    x, dictionary = gaussian(3000, 64, 128)
    code = omp(x.cuda(), dictionary.cuda(), **form)
    assert code.is_cuda
    torch.testing.assert_close(code.cpu(), omp(x, dictionary, **form), atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected num_nonzeros or noise, got num_nonzeros=None, noise=None"),
        ({"num_nonzeros": 1, "noise": 1.0}, "expected num_nonzeros or noise"),
        ({"num_nonzeros": 2.7}, "num_nonzeros must be an integer >= 1, got 2.7"),
        ({"num_nonzeros": 0}, "num_nonzeros must be an integer >= 1, got 0"),
        ({"num_nonzeros": 9}, "num_nonzeros must be an integer <= 8, got 9"),
        ({"noise": -1.0}, "noise must be >= 0, got -1.0"),
    ],
)
def test_says_what_was_expected(arguments, message):
    x, dictionary = gaussian(2)
    with pytest.raises(ValueError, match=message):
        omp(x, dictionary, **arguments)


def test_bad_input_is_refused():
    x, dictionary = gaussian(6)
    with pytest.raises(ValueError, match="x must be finite"):
        omp(x * torch.nan, dictionary, 2)
    with pytest.raises(ValueError, match="pass its transpose"):
        omp(x, dictionary.T.contiguous(), 2)
