"""Networks that experiments compare are trained as those that users train are."""

import pytest
import torch

from fwnet.experiments import Lab, denoising_networks, super_resolution_networks
from fwnet.experiments.compared_network import QUICK_SETTINGS
from fwnet.experiments.upscale_table import NETWORKS
from fwnet.models import create_model

CPU = torch.device("cpu")
LISTED = [
    *NETWORKS,
    *super_resolution_networks.FAMILIES.values(),
    *super_resolution_networks.FIXED,
    *denoising_networks.table_networks(),
    *denoising_networks.FAMILIES.values(),
]
ALL = list({(type(one), one.name): one for one in LISTED}.values())
ON_IMAGES = [one for one in ALL if not getattr(one, "on_patches", False)]


def made(network):
    """… with few channels, which no setting depends on."""
    few = {"channels": [2, 2] if network.model == "SRCNN" else 2}
    return create_model(network.model, **{**network.options, **few})


@pytest.mark.parametrize(
    "network", ON_IMAGES, ids=lambda one: f"{one.name}, {type(one).__module__}"
)
class TestNetworksOnImages:
    def test_the_recipe_has_a_row_for_it(self, network):
        assert network.model in network.recipe.networks
        assert network.recipe.row(network.model, made(network).config) in network.recipe.rows

    def test_settings_are_those_of_a_user_who_says_nothing(self, network):
        ours = network.settings(Lab(None), 1e-3, 1, None)
        theirs = network.recipe.settings(made(network), CPU, 20_000)
        for name in ("num_epochs", "batch_size", "clip_norm", "weight_decay", "average"):
            assert ours[name] == theirs[name]


def settings_of(module, method, *arguments, quick=False, **options):
    network = module.FAMILIES[method]
    return network.settings(Lab(None, quick=quick), 1e-3, *arguments, **options)


@pytest.mark.parametrize(
    ("method", "clip_norm"),
    [
        ("SRCNN (9-1-5)", 0.1),
        ("SRCNN (9-5-5)", 0.1),
        ("VDSR (5 layers)", 0.003),
        ("VDSR (5 layers) + BN", 0.01),
        ("Conv F-W Net (4 layers)", 0.01),
        ("Conv F-W Net (4 layers), authors' form", 0.01),
        ("Conv F-W Net (4 layers), ReLU", 0.01),
        ("Conv F-W Net (19 layers), sub-pixel", 0.01),
    ],
)
def test_networks_that_enlarge_have_settings_of_their_own(method, clip_norm):
    settings = settings_of(super_resolution_networks, method, 0, None)
    assert settings["clip_norm"] == clip_norm
    # … and in nothing else they differ.
    ours = settings_of(super_resolution_networks, super_resolution_networks.OURS.name, 0, None)
    assert {**settings, "clip_norm": 0.01} == ours
    quick = settings_of(super_resolution_networks, method, 0, None, quick=True)
    assert quick["clip_norm"] == clip_norm
    assert QUICK_SETTINGS.items() <= quick.items()


def test_an_experiments_settings_go_before_those_of_the_form():
    others = {"clip_norm": 0.5, "batch_size": 7}
    settings = settings_of(super_resolution_networks, "SRCNN (9-1-5)", 2, 3, others=others)
    assert (settings["clip_norm"], settings["batch_size"]) == (0.5, 7)
    assert (settings["seed"], settings["num_epochs"]) == (2, 3)


@pytest.mark.parametrize("method", denoising_networks.FAMILIES)
def test_networks_that_remove_noise_share_their_settings(method):
    """Those on patches as well, which no recipe knows."""
    settings = settings_of(denoising_networks, method, 0, None)
    assert settings["clip_norm"] == 0.1
    assert settings == settings_of(denoising_networks, "Conv F-W Net (4 layers)", 0, None)
