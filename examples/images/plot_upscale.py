"""
Enlarge a photo
===============

A photo is shrunk to a third and enlarged again: by bicubic interpolation, and by a network of the
package. On the command line:

.. code-block:: console

   $ fwnet upscale small.png large.png --scale 3
"""

import matplotlib.pyplot as plt
import torch
from skimage.data import astronaut

import fwnet

photo = torch.tensor(astronaut()[:510, :510] / 255).permute(2, 0, 1)  # channels first, in [0, 1]
small = fwnet.resize.shrink(photo, 3)
bicubic = fwnet.resize.enlarge(small, 3)
large = fwnet.upscale(small, 3)

# %%
# A tensor gives a tensor. PSNR is measured without a border of three pixels.


def psnr(image):
    """Return the PSNR against the photo."""
    images = [fwnet.metrics.shave(one[None].clamp(0, 1), 3) for one in (image, photo)]
    return fwnet.metrics.psnr(*images).item()


pictures = {
    "the photo": photo,
    f"bicubic × 3, {psnr(bicubic):.1f} dB": bicubic,
    f"fwnet.upscale × 3, {psnr(large):.1f} dB": large,
}
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
for axis, (title, picture) in zip(axes, pictures.items(), strict=True):
    axis.imshow(picture[:, 60:180, 160:280].clamp(0, 1).permute(1, 2, 0))
    axis.set_title(title)
    axis.set_axis_off()
plt.show()
