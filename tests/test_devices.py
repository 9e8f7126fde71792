"""Devices that lack float64: torch's meta device, which computes nothing, takes Apple's place."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fwnet import hardware, metrics
from fwnet.models import ConvFWNet, ConvLISTA, DnCNN
from fwnet.resize import enlarge, shrink
from fwnet.restoration import Denoising, Upscaling

META = torch.device("meta")


class NoFloat64(TorchDispatchMode):
    """Raise, as Apple's GPUs do, where a result on the device would have float64."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else [made]:
            wide = isinstance(one, torch.Tensor) and one.dtype == torch.float64
            assert not (wide and one.device.type == "meta"), f"{function} made float64"
        return made


@pytest.fixture(autouse=True)
def _meta_lacks_float64(monkeypatch):
    monkeypatch.setattr(hardware, "WITHOUT_FLOAT64", ("mps", "meta"))


@pytest.mark.parametrize(
    "network",
    [
        lambda: ConvFWNet(3, 4, noise_level_input=True, reduction=2, learn_radius=True),
        lambda: ConvFWNet(3, 4, noise_level_input=True, learn_p=False, learn_step_sizes=False),
        lambda: ConvFWNet(3, 4, scale=3, p_per_layer=True),
        lambda: ConvLISTA(3, 4, noise_level_input=True),
        lambda: DnCNN(3, 4, noise_level_input=True, reduction=2),
    ],
)
def test_networks_move_and_run(network):
    network = network().eval()
    before = {name: value.dtype for name, value in network.state_dict().items()}
    x = torch.rand(2, 1, 7, 5)
    sigma = (0.1,) if network.noise_level_input else ()
    expected = network(x, *sigma).shape
    with NoFloat64():
        network.to(META)
        restoration = Upscaling(3) if network.scale > 1 else Denoising((0.0, 0.2), tell_sigma=True)
        y = restoration.restore(network, x.to(META), *sigma)
    assert y.shape == expected
    assert all(value.dtype != torch.float64 for value in network.state_dict().values())
    assert any(dtype == torch.float64 for dtype in before.values()) == ("fixed" in " ".join(before))


def test_what_is_measured_during_a_training():
    x = torch.rand(2, 1, 12, 12, device=META)
    with NoFloat64():
        assert metrics.psnr(x, x).shape == (2,)
        assert metrics.error_rate(x[0, 0], x[0, 0, 0].long()).shape == ()
        assert enlarge(shrink(x, 3), 3).shape == x.shape
        assert Upscaling(3).degrade(x).shape == (2, 1, 4, 4)


def test_the_test_would_notice():
    with pytest.raises(AssertionError, match="made float64"), NoFloat64():
        torch.rand(3, device=META).double()


def test_a_device_that_is_not_here_is_named():
    with pytest.raises(hardware.FwnetError, match="unknown device 'nosuch': expected auto, cpu"):
        hardware.choose_device("nosuch")
    with pytest.raises(
        hardware.FwnetError, match="device cuda:99 is not available on this machine; cpu"
    ):
        hardware.choose_device("cuda:99")
