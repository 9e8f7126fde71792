"""K-SVD finds planted dictionaries."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from fwnet.solvers import ksvd, omp
from tests.solvers.problems import gaussian


def planted(count=1500, n=20, m=50, nonzeros=3, noise=0.01, seed=0, dtype=torch.float64):
    """The experiment of the K-SVD paper: random unit-norm atoms, three at a time, and noise."""
    generator = torch.Generator().manual_seed(seed)
    dictionary = torch.randn(n, m, dtype=dtype, generator=generator)
    dictionary /= dictionary.norm(dim=0)
    chosen = torch.rand(count, m, generator=generator).topk(nonzeros).indices
    values = torch.randn(count, nonzeros, dtype=dtype, generator=generator)
    codes = torch.zeros(count, m, dtype=dtype).scatter(1, chosen, values)
    x = codes @ dictionary.T
    return x + noise * torch.randn(x.shape, dtype=dtype, generator=generator), dictionary


def share_recovered(found, true):
    return ((found.T @ true).abs().amax(0) > 0.99).double().mean().item()


@pytest.mark.parametrize("exact", [True, False])
def test_a_planted_dictionary_is_recovered(exact):
    x, dictionary = planted()
    result = ksvd(x, 50, 3, num_rounds=40, exact=exact)
    assert share_recovered(result.dictionary, dictionary) >= 0.85
    torch.testing.assert_close(result.dictionary.norm(dim=0), torch.ones(50, dtype=torch.float64))


def test_batches_recover_it_too():
    x, dictionary = planted(6000, dtype=torch.float32)
    result = ksvd(x, 50, 3, num_rounds=40, batch_size=1500)
    assert result.dictionary.dtype == torch.float32
    assert share_recovered(result.dictionary, dictionary) >= 0.85
    assert result.errors[-1] < 0.2 * result.errors[0]


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 8),
    m=st.integers(1, 10),
    exact=st.booleans(),
)
def test_a_round_never_makes_its_codes_worse(seed, n, m, exact):
    """From the codes of OMP, every atom's update lowers the error, and norms stay 1."""
    x, dictionary = gaussian(40, n, m, seed)
    k = min(2, n, m)
    before = 0.5 * (x - omp(x, dictionary, k) @ dictionary.T).square().sum(-1).mean()
    result = ksvd(x, m, k, num_rounds=1, dictionary=dictionary, exact=exact)
    cosines = (dictionary.T @ dictionary).abs().fill_diagonal_(0)
    if cosines.max() <= 0.99:  # doubles are replaced, which may cost something at first
        assert result.errors[0] <= before * (1 + 1e-12)
    torch.testing.assert_close(result.dictionary.norm(dim=0), torch.ones(m, dtype=torch.float64))


def test_adapts_to_noise_of_a_known_level():
    """With as many atoms as leave the noise of a sample, codes become sparser and atoms better."""
    x, dictionary = planted(noise=0.1)
    generator = torch.Generator().manual_seed(1)
    first = dictionary + 0.05 * torch.randn(20, 50, dtype=torch.float64, generator=generator)
    first /= first.norm(dim=0)
    found = ksvd(x, 50, noise=0.1, dictionary=first, num_rounds=10).dictionary
    before, after = ((omp(x, d, noise=0.1) != 0).double().sum(-1).mean() for d in (first, found))
    assert after < 0.95 * before
    cosines = [(d * dictionary).sum(0).abs().mean() for d in (first, found)]
    assert 1 - cosines[1] < 0.5 * (1 - cosines[0])


def test_unused_atoms_and_doubles_are_replaced():
    x, dictionary = planted(400, 10, 12, 2)
    first = dictionary.clone()
    first[:, 1] = -first[:, 0]
    first[:, 3] = first[:, 2]
    result = ksvd(x, 12, 2, num_rounds=15, dictionary=first)
    cosines = (result.dictionary.T @ result.dictionary).abs().fill_diagonal_(0)
    assert cosines.max() < 0.99
    assert share_recovered(result.dictionary, dictionary) >= 0.8


def test_more_atoms_than_samples_and_rows_of_zero():
    x = torch.zeros(3, 4)
    x[0, 0] = 2.0
    result = ksvd(x, 6, 1, num_rounds=2)
    assert result.dictionary.shape == (4, 6)
    assert result.dictionary.isfinite().all()
    torch.testing.assert_close(result.dictionary.norm(dim=0), torch.ones(6))
    assert result.errors[-1] == pytest.approx(0.0, abs=1e-12)


def test_seeds_decide_and_the_callback_can_stop():
    x, _ = planted(200, 10, 12, 2)
    one, two, three = (ksvd(x, 12, 2, num_rounds=3, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.dictionary, two.dictionary)
    assert not torch.equal(one.dictionary, three.dictionary)
    heard = []

    def callback(done, error):
        heard.append((done, error))
        return done == 2

    assert ksvd(x, 12, 2, num_rounds=9, callback=callback).errors == [error for _, error in heard]
    assert [done for done, _ in heard] == [1, 2]


def test_bad_input_is_refused():
    x, dictionary = gaussian(6)
    for options, message in (
        ({"num_atoms": 0}, "num_atoms must be an integer >= 1, got 0"),
        ({"num_rounds": 0}, "num_rounds must be an integer >= 1, got 0"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
        ({"dictionary": dictionary}, "num_atoms = 7 columns, got 15"),
        ({"num_nonzeros": 9}, "num_nonzeros must be an integer <= 7, got 9"),
        ({"num_nonzeros": None}, "expected num_nonzeros or noise"),
        ({"x": x[0]}, r"shape \(count, n\), got \(8,\)"),
        ({"x": x[:0]}, r"must not be empty, got shape \(0, 8\)"),
    ):
        with pytest.raises(ValueError, match=message):
            ksvd(**{"x": x, "num_atoms": 7, "num_nonzeros": 2, **options})


def test_what_a_replaced_atom_explained_is_an_error_of_its_round():
    """The first of two similar atoms has no users, the second is replaced: nothing is left."""
    first, other = torch.eye(3, dtype=torch.float64)[[0, 2]]
    similar = normalize(torch.tensor([1.0, 0.1, 0.0], dtype=torch.float64), dim=0)
    x = torch.linspace(1, 2, 6, dtype=torch.float64)[:, None] * similar + 0.1 * other
    found = ksvd(x, 2, 1, num_rounds=1, dictionary=torch.stack([first, similar], 1))
    assert found.errors == pytest.approx([0.5 * x.square().sum(-1).mean().item()])
