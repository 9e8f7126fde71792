"""
Train a denoiser from a folder of photos
========================================

The command below learns a network from your photos. This page does the same in Python with a very
small network, three photos and a few seconds, to show the parts. The networks of the package
learned for minutes on a GPU; ``fwnet models NAME`` says how long, and from what.

.. code-block:: console

   $ fwnet train denoise --data photos --sigma 25 -o mynet
   $ fwnet denoise noisy.png clean.png --model mynet/model.safetensors
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from skimage.data import astronaut, camera, chelsea, coffee

import fwnet
from fwnet.restoration import Denoising
from fwnet.training import TrainingRun, train_restoration

torch.set_num_threads(1)
folder = Path(tempfile.mkdtemp())
(folder / "photos").mkdir()
for number, photo in enumerate((astronaut(), chelsea(), coffee())):
    Image.fromarray(photo).convert("L").save(folder / "photos" / f"{number}.png")

# %%
# A restoration is one object: it knows how photos are degraded and which networks undo that. Its
# network may be any of the package, or your own.

restoration = Denoising(25 / 255)
network = fwnet.ConvFWNet(num_layers=3, channels=12, reduction=2)
report = train_restoration(
    restoration,
    network,
    folder / "photos",
    TrainingRun(folder=folder / "mynet"),
    settings={"num_epochs": 4, "batch_size": 16, "learning_rate": 0.01},
    steps_per_epoch=60,
)
print(f"trained for {report.training.seconds:.0f} s; wrote {report.model_path.name}")

# %%
# The folder then holds the network, which also works with ``fwnet denoise --model``.

clean = camera()[100:300, 120:320]
noisy = (clean + np.random.default_rng(0).normal(0, 25, clean.shape)).clip(0, 255).astype(np.uint8)
mine = fwnet.denoise(noisy, model=folder / "mynet" / "model.safetensors")
shipped = fwnet.denoise(noisy, sigma=25 / 255)

figure, axes = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
titles = ["noisy", "a few seconds of training", "the network of the package"]
for axis, title, picture in zip(axes, titles, (noisy, mine, shipped), strict=True):
    error = np.sqrt(np.mean((picture.astype(float) - clean) ** 2))
    axis.imshow(picture, cmap="gray", vmin=0, vmax=255)
    axis.set_title(f"{title}\nerror {error:.1f}")
    axis.set_axis_off()
plt.show()
