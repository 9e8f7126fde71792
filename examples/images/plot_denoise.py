"""
Clean a photo
=============

Noise of a known strength is added to a photo and removed again by a network of the package. The
noise level is estimated from the noisy photo, as on the command line:

.. code-block:: console

   $ fwnet denoise noisy.png clean.png
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import astronaut
from skimage.metrics import peak_signal_noise_ratio as psnr

import fwnet

photo = astronaut()
noise = np.random.default_rng(0).normal(0, 25, photo.shape)
noisy = (photo + noise).round().clip(0, 255).astype(np.uint8)

# %%
# An array of 8 bits gives an array of 8 bits. The estimate is on the scale 0 to 1, like `sigma`.

clean = fwnet.denoise(noisy)
print(f"estimated σ: {255 * fwnet.imaging.noise_level(noisy):.1f} of 255")

# %%
# PSNR compares with the photo before the noise was added. Higher is better.

pictures = {
    "the photo": photo,
    f"with noise, {psnr(photo, noisy):.1f} dB": noisy,
    f"fwnet.denoise, {psnr(photo, clean):.1f} dB": clean,
}
figure, axes = plt.subplots(2, 3, figsize=(11, 7.4), layout="constrained")
for (upper, lower), (title, picture) in zip(axes.T, pictures.items(), strict=True):
    upper.imshow(picture)
    upper.set_title(title)
    lower.imshow(picture[50:200, 150:300])
    upper.set_axis_off()
    lower.set_axis_off()
plt.show()
