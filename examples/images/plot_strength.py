"""
How much noise to remove
========================

A network that is told σ can be told more or less than the truth. Less keeps grain and texture, more
gives smooth areas. ``fwnet denoise --strength`` multiplies the estimated σ, and ``--preview`` shows
five strengths side by side, like this page.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import chelsea

import fwnet

photo = chelsea()[20:260, 80:320]
noise = np.random.default_rng(0).normal(0, 20, photo.shape)
noisy = (photo + noise).round().clip(0, 255).astype(np.uint8)

sigma = fwnet.imaging.noise_level(noisy)
figure, axes = plt.subplots(1, 5, figsize=(12, 2.9), layout="constrained")
for axis, strength in zip(axes, (0, 0.5, 1, 1.5, 2), strict=True):
    clean = fwnet.denoise(noisy, sigma=sigma, strength=strength)
    axis.imshow(clean[60:180, 20:140])
    error = np.sqrt(np.mean((clean.astype(float) - photo) ** 2))
    axis.set_title(f"strength {strength:g}\nerror {error:.1f}")
    axis.set_axis_off()
plt.show()
