"""`fwnet.deepinv` in deepinv itself."""

import importlib.util
import sys

import pytest
import torch

import fwnet


def declare_operators():
    """Let torchvision be imported beside another build of torch: deepinv needs none of these."""
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)


@pytest.fixture(scope="module")
def deepinv():
    if importlib.util.find_spec("deepinv") is None:
        pytest.skip("needs deepinv: pip install '.[deepinv]'")
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        declare_operators()
    import deepinv

    return deepinv


pytestmark = pytest.mark.filterwarnings("ignore")  # those of deepinv's own imports


def network(**options):
    return fwnet.ConvFWNet(2, 4, noise_level_input=True, output_gain=0.3, **options).eval()


def test_it_is_their_denoiser(deepinv):
    model = network()
    denoiser = fwnet.deepinv.Denoiser(model)
    assert isinstance(denoiser, deepinv.models.Denoiser)
    x = torch.rand(2, 1, 9, 8)
    for sigma in (0.1, torch.tensor(0.1), torch.tensor([0.1, 0.1]), torch.full((2, 1, 1, 1), 0.1)):
        torch.testing.assert_close(denoiser(x, sigma), model(x, 0.1))
    each = denoiser(x, torch.tensor([0.1, 0.2]))
    torch.testing.assert_close(each[1:], model(x[1:], 0.2))


def test_more_noise_than_the_network_knows_is_scaled_down(deepinv):
    """As `fwnet.denoise` does it."""
    model = network()
    x = torch.rand(1, 1, 9, 8)
    wanted = fwnet.restoration.Denoising.for_network(fwnet.zoo.TrainedModel(model, "ours")).restore(
        model, x, 0.5
    )
    torch.testing.assert_close(fwnet.deepinv.Denoiser(model)(x, 0.5), wanted)
    assert not torch.allclose(model(x, 0.5), wanted, atol=1e-3)


def test_a_gray_network_sees_the_channels_one_by_one(deepinv):
    denoiser = fwnet.deepinv.Denoiser(network())
    x, sigma = torch.rand(2, 3, 9, 8), torch.tensor([0.1, 0.2])
    torch.testing.assert_close(denoiser(x, sigma)[:, 1:2], denoiser(x[:, 1:2], sigma))


def test_the_networks_of_the_package_remove_noise(deepinv):
    for channels in (1, 3):
        denoiser = fwnet.deepinv.Denoiser(in_channels=channels)
        clean = torch.linspace(0.2, 0.8, 40).expand(1, channels, 40, 40)
        noisy = clean + 0.1 * torch.randn(clean.shape)
        with torch.no_grad():
            assert (denoiser(noisy, 0.1) - clean).std() < 0.03
    one_level = fwnet.deepinv.Denoiser("conv_fwnet_t4.denoise_gray_s25")
    with torch.no_grad():
        assert torch.equal(one_level(noisy[:, :1]), one_level(noisy[:, :1], 0.5))


def test_it_restores_in_their_algorithm(deepinv):
    """DPIR with a blur."""
    rows, columns = torch.meshgrid(torch.arange(48), torch.arange(48), indexing="ij")
    x = (0.2 + 0.6 * ((rows // 8 + columns // 8) % 2))[None, None]
    kernel = deepinv.physics.functional.blur.gaussian_blur(sigma=(1.6, 1.6))
    noise = deepinv.physics.GaussianNoise(0.01)
    physics = deepinv.physics.BlurFFT((1, 48, 48), kernel, noise_model=noise)
    y = physics(x)
    algorithm = deepinv.optim.DPIR(0.01, fwnet.deepinv.Denoiser(in_channels=1))
    with torch.no_grad():
        found = algorithm(y, physics)
    assert fwnet.metrics.psnr(found, x) > fwnet.metrics.psnr(y, x) + 5


def test_gradients_reach_the_network(deepinv):
    denoiser = fwnet.deepinv.Denoiser(network())
    denoiser(torch.rand(1, 1, 9, 8), 0.1).sum().backward()
    assert all(weight.grad is not None for weight in denoiser.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_channels": 2}, "in_channels must be 1 or 3, got 2"),
        ({"model": "conv_fwnet_t4.upscale_x3"}, "expected a network that"),
    ],
)
def test_bad_arguments(deepinv, arguments, message):
    with pytest.raises(ValueError, match=message):
        fwnet.deepinv.Denoiser(**arguments)


def test_bad_levels(deepinv):
    denoiser = fwnet.deepinv.Denoiser(network())
    with pytest.raises(ValueError, match="sigma must be a number or one per image"):
        denoiser(torch.rand(1, 1, 9, 8))
    with pytest.raises(ValueError, match="one for each of 1 images, got 2"):
        denoiser(torch.rand(1, 1, 9, 8), torch.tensor([0.1, 0.2]))


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "deepinv", None)
    for name in ("deepinv.models", "fwnet.deepinv"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ImportError, match=r"fwnet.deepinv needs deepinv: pip install"):
        importlib.import_module("fwnet.deepinv")
