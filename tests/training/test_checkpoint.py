import pytest
import torch

from fwnet.models import ConvFWNet
from fwnet.training import TrainingConfig
from fwnet.training.checkpoint import KeptWeights, Position, TrainingFolder
from fwnet.training.steps import make_optimizer


def network(memory_format, in_channels):
    generator = torch.Generator().manual_seed(0)
    model = ConvFWNet(2, 3, in_channels=in_channels, generator=generator)
    return model.to(memory_format=memory_format)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("saved_in", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("loaded_in", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("in_channels", [1, 2])  # of one channel there are several layouts
def test_what_is_loaded_lies_in_memory_as_the_weights_do(
    tmp_path, optimizer, saved_in, loaded_in, in_channels
):
    """Fused optimizers on a GPU, where channels are last, take nothing else."""
    config = TrainingConfig(optimizer=optimizer)
    model = network(saved_in, in_channels)
    model(torch.rand(2, in_channels, 8, 8)).square().sum().backward()
    before = make_optimizer(model, config)
    before.step()
    mean = {name: 2 * weight.detach() for name, weight in model.named_parameters()}
    folder = TrainingFolder(tmp_path, {})
    folder.save(model, before, KeptWeights(mean=mean), Position(step=7))

    again = network(loaded_in, in_channels)
    after = make_optimizer(again, config)
    position, kept = folder.load(again, after)
    assert position == Position(step=7)
    pairs = zip(model.named_parameters(), again.named_parameters(), strict=True)
    num_compared = 0
    for (name, old), (_, new) in pairs:
        assert torch.equal(new, old)
        assert torch.equal(kept.mean[name], 2 * old)
        assert kept.mean[name].stride() == new.stride()
        assert not kept.mean[name].requires_grad
        for key, value in before.state[old].items():
            loaded = after.state[new][key]
            assert torch.equal(loaded, value)
            assert not loaded.requires_grad
            if value.shape == new.shape:
                assert loaded.stride() == new.stride()
                num_compared += 1
    assert num_compared >= len(kept.mean)
    last = again.first.weight.stride(1) == 1
    assert last == (loaded_in is torch.channels_last)
