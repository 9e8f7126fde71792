"""
The noise of a camera
=====================

The noise of a camera is not white: it is interpolated, smoothed and compressed. An estimate that
looks at the finest details finds little of it, and a network that is told so little does little.
`fwnet.imaging.noise_level` tells what the network should be told. Smooth noise is added to photos
here, so that the truth is known, and they are saved as JPEG files.
"""

import io

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr

import fwnet


def shoot(clean):
    """Return a photo with smooth noise of 5 gray levels rms, read from a JPEG file."""
    noise = gaussian_filter(np.random.default_rng(0).normal(size=clean.shape), (1, 1, 0))
    noisy = (clean + 5 * noise / noise.std()).round().clip(0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(noisy).save(file, "JPEG", quality=90)
    return np.array(Image.open(file))


pictures = {
    "astronaut": data.astronaut()[20:276, 90:346],
    "chelsea": data.chelsea()[20:276, 90:346],
    "coffee": data.coffee()[100:356, 200:456],
}

# %%
# From left to right: the photo, told what the classical estimate finds, told what the network
# finds, told half of that (`strength=0.5`), and the truth. The spots go, and some of the finest
# texture with them. In photos full of detail such as these, half the level is closer to the truth;
# in flat ones the whole level is.

figure, axes = plt.subplots(3, 5, figsize=(12, 7.6), layout="constrained")
for row, clean in zip(axes, pictures.values(), strict=True):
    photo = shoot(clean)
    level = fwnet.imaging.noise_level(photo)
    told = fwnet.imaging.estimate_noise(photo), level, level / 2
    results = [photo, *(fwnet.denoise(photo, sigma, fast=True) for sigma in told), clean]
    names = ["photo", *(f"σ = {255 * sigma:.1f}" for sigma in told), "truth"]
    for axis, image, name in zip(row, results, names, strict=True):
        quality = "" if image is clean else f", {psnr(clean, image):.1f} dB"
        axis.imshow(image[64:192, 64:192])
        axis.set_title(name + quality)
        axis.axis("off")

# %%
# Photos without visible noise are left alone.

for name, clean in pictures.items():
    print(f"{name}: σ = {255 * fwnet.imaging.noise_level(clean):.1f}")

plt.show()
