import pytest
import torch

from fwnet.models import NoiseLevelNet
from fwnet.models.noise_level_net import BLOCK, level_of, sigma_of
from tests.models.conformance import CompileConformance, ModelConformance, generator


class TestNoiseLevelNet(CompileConformance, ModelConformance):
    model = "NoiseLevelNet"

    def make(self, seed=0, **changes):
        options = {"in_channels": 3, "filters": 3, "channels": 5, "heads": 2} | changes
        return NoiseLevelNet(**options, generator=generator(seed)).eval()

    def inputs(self, count, seed=1):
        return torch.rand(count, 3, 35, 52, generator=generator(seed))

    def test_one_number_per_image(self, x):
        assert self.make()(x).shape == (5,)
        assert self.make(in_channels=1)(x[:, :1]).shape == (5,)

    def test_what_fills_no_block_does_not_count(self, x):
        network, changed = self.make(), x.clone()
        changed[..., 2 * BLOCK :, :] = 0
        changed[..., 3 * BLOCK :] = 0
        torch.testing.assert_close(network(changed), network(x))

    def test_parts_of_an_image_can_be_looked_at_one_by_one(self, x):
        network = self.make()
        parts = [network.features(x[..., :32]), network.features(x[..., 20:52])]
        assert network.pooled(torch.cat(parts, 1)).shape == (5,)
        assert network.features(x).shape == (5, 2 * 3, 2 + 5)

    def test_brightness_alone_is_no_noise(self):
        """All filtered blocks of two flat images are the same: only their means differ."""
        network = self.make()
        with torch.no_grad():
            network.block_layers[0].weight[:, :3] = 0  # of the means
        dark, light = (torch.full((1, 3, 32, 32), value) for value in (0.1, 0.9))
        torch.testing.assert_close(network(dark), network(light), rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("shape", [(1, 3, 31, 40), (1, 1, 32, 32), (3, 32, 32)])
    def test_other_shapes_are_refused(self, shape):
        with pytest.raises(ValueError, match=r"sides of at least 32, got"):
            self.make()(torch.zeros(shape))


def test_a_level_and_its_sigma():
    sigma = torch.tensor([0.0, 1e-3, 0.1, 0.5], dtype=torch.float64)
    torch.testing.assert_close(sigma_of(level_of(sigma)), sigma)
    assert sigma_of(torch.tensor(-9.0)) == 0
