from dataclasses import replace

import numpy as np
import pytest
import torch

from fwnet.data import ImageSet
from fwnet.models import VDSR, ConvFWNet, DnCNN
from fwnet.progress import silent
from fwnet.training import TrainingConfig, TrainingRun, train
from tests.trainings import denoising, upscaling

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


class Stopped(BaseException):
    pass


def pictures():
    generator = np.random.default_rng(0)
    arrays = [generator.integers(0, 256, (40, 50, 1), np.uint8) for _ in range(4)]
    return ImageSet.of(arrays, list("abcd")).split(1)


@pytest.mark.parametrize("make", [lambda: ConvFWNet(3, 8), lambda: DnCNN(4, 8)])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_training_of_images_goes_on(tmp_path, make, precision):
    """Channels are last there, and optimizers fused."""
    task = denoising(*pictures(), sigma=0.1, crop_size=16, crops_per_epoch=80)
    config = TrainingConfig(num_epochs=3, batch_size=8, average=0.9, precision=precision)

    def stop(progress):
        if progress.done > 15:
            raise Stopped

    run = TrainingRun(tmp_path, "cuda", checkpoint_seconds=0.0, progress=stop)
    with pytest.raises(Stopped):
        train(make(), task, config, run)
    model = make()
    result = train(model, task, config, replace(run, resume=True, progress=silent))
    assert [record["epoch"] for record in result.history] == [1, 2, 3]
    assert all(weight.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize("make", [lambda: ConvFWNet(3, 8, scale=2), lambda: VDSR(3, 8)])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore")  # those of the compiler
def test_networks_that_enlarge_are_recorded(make, compiled):
    """… and a compiled one is not compiled again while it is."""
    model = make()
    task = upscaling(
        *pictures(), scale=2, low_resolution=model.scale > 1, crop_size=16, crops_per_epoch=80
    )
    config = TrainingConfig(num_epochs=2, batch_size=8, precision="bf16", compile=compiled)
    result = train(model, task, config, TrainingRun(device="cuda"))
    assert [record["epoch"] for record in result.history] == [1, 2]
    assert all(weight.isfinite().all() for weight in model.parameters())
    torch.compiler.reset()
