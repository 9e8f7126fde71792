"""The preparation that `train_coder` and `FWNetCoder` share."""

import numpy as np
import pytest
import torch

from fwnet.coding import train_coder
from fwnet.coding.coder_network import dictionary_from_pairs, network_for_codes, split_rows
from fwnet.training import TrainingConfig, TrainingRun


@pytest.fixture
def dictionary():
    return 3 * torch.randn(4, 6, dtype=torch.float64)


@pytest.fixture
def codes():
    return torch.randn(30, 6, dtype=torch.float64)


def test_every_row_is_either_trained_with_or_held_back():
    kept, held = split_rows(50, 0.2, seed=0)
    assert len(held) == 10
    assert sorted(torch.cat([kept, held]).tolist()) == list(range(50))
    again, other = split_rows(50, 0.2, seed=0)[1], split_rows(50, 0.2, seed=1)[1]
    assert torch.equal(held, again)
    assert not torch.equal(held, other)


def test_of_every_class_a_share_is_held_back_and_one_is_left():
    labels = torch.tensor([0] * 20 + [1] * 10 + [2])
    kept, held = split_rows(31, 0.5, seed=0, labels=labels)
    assert labels[held].bincount().tolist() == [10, 5]
    assert 2 in labels[kept]
    assert len(split_rows(1, 0.9, seed=0)[0]) == 1


def test_the_dictionary_of_pairs_is_found(dictionary, codes):
    found = dictionary_from_pairs(codes @ dictionary.T, codes)
    torch.testing.assert_close(found, dictionary, rtol=1e-4, atol=1e-4)
    codes[:, 2] = 0.0  # an atom that no code uses
    assert not dictionary_from_pairs(codes @ dictionary.T, codes)[:, 2].any()


@pytest.mark.parametrize("model", ["FWNet", "LISTA", "LCoD", "MLP"])
def test_the_network_sees_a_dictionary_of_norm_1(dictionary, codes, model):
    network = network_for_codes(model, dictionary, codes, 2, unit=5.0, share_weights=True)
    norm = torch.linalg.matrix_norm(dictionary, ord=2).item()
    assert network.config["input_scale"] == pytest.approx(1 / norm / 5)
    assert network.config["share_weights"]
    if model == "FWNet":
        scaled = (dictionary / norm).float()
        torch.testing.assert_close(network.first.weight, -scaled.T, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("model", ["LISTA", "LCoD"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_thresholds_begin_where_codes_are_not_all_zero(dictionary, codes, model, scale):
    """Where all codes are 0, no weight would get a gradient."""
    dictionary = torch.cat([dictionary, dictionary.mean(1, keepdim=True).expand(-1, 40)], 1)
    codes = scale * torch.cat([codes, codes[:, :1].expand(-1, 40) / 40], 1)
    network = network_for_codes(model, dictionary, codes, 3)
    found = network((codes @ dictionary.T).float())
    assert (found != 0).any(-1).float().mean() > 0.8


def test_the_radius_is_given_or_learned_from_the_largest_norm(dictionary, codes):
    learned = network_for_codes("FWNet", dictionary, codes, 2, p=1.5, unit=2.0).config
    largest = torch.linalg.vector_norm(codes, ord=1.5, dim=1).max().item()
    assert learned["radius"] == pytest.approx(largest / 2)
    assert learned["learn_radius"]
    given = network_for_codes("FWNet", dictionary, codes, 2, radius=7.0, unit=2.0).config
    assert (given["radius"], given["learn_radius"]) == (3.5, False)
    zeros = network_for_codes("FWNet", dictionary, 0 * codes, 2, learn_p=False).config
    assert (zeros["radius"], zeros["learn_p"]) == (1.0, False)


def test_sparse_codes_get_layers_of_their_own(dictionary, codes):
    def config(codes, **options):
        return network_for_codes(
            "FWNet", dictionary, codes, 2, **{"line_search": True, **options}
        ).config

    dense, few = config(codes), codes.clone()
    assert (dense["line_search"], dense["activation"]) == ("exact", "pool_p")
    few[:, 2:] = 0
    sparse = config(few)
    assert (sparse["line_search"], sparse["activation"]) == ("conjugate", "shrink")
    assert sparse["free_entries"] == 1  # 2 entries in 2 layers
    assert sparse["radius"] == pytest.approx(few.abs().sum(1).max().item(), rel=1e-5)
    assert config(few, sparse=False)["line_search"] == "exact"
    assert config(few, learn_p=False)["line_search"] == "exact"
    assert config(codes, sparse=True)["activation"] == "shrink"
    assert config(few, line_search=False)["line_search"] is None


def test_a_dictionary_that_is_not_finite_is_refused(dictionary, codes):
    with pytest.raises(ValueError, match="must be finite in float32, got NaN or infinity"):
        network_for_codes("LISTA", 1e300 * dictionary, codes, 2)


def test_the_rows_held_back_do_not_prepare_the_network(dictionary, codes, tmp_path):
    kept, held = split_rows(len(codes), 0.2, seed=3)
    codes[held] *= 100
    signals = codes @ dictionary.T
    signals[held] *= 2
    np.save(tmp_path / "x.npy", signals.numpy())
    np.save(tmp_path / "z.npy", codes.numpy())
    report = train_coder(
        tmp_path / "x.npy",
        tmp_path / "z.npy",
        TrainingRun(folder=tmp_path / "net", device=torch.device("cpu")),
        config=TrainingConfig(num_epochs=1, batch_size=10, seed=3),
        num_layers=2,
        validation=0.2,
    )
    largest = torch.linalg.vector_norm(codes[kept], dim=1).max().item()
    assert report.network.config["radius"] == pytest.approx(largest, rel=1e-5)
    found = dictionary_from_pairs(signals[kept], codes[kept])
    norm = torch.linalg.matrix_norm(found, ord=2).item()
    assert report.network.config["input_scale"] == pytest.approx(1 / norm, rel=1e-4)
    assert report.zero_error == pytest.approx(codes[held].square().sum(1).mean().item(), rel=1e-4)
