"""
Fill in missing pixels
======================

Half of the pixels of a picture are missing. Each patch of 8 × 8 is coded from the pixels it has,
over a dictionary that was learned elsewhere, and the code says what the others should be.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from skimage.data import camera
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

import fwnet

SIDE = 8


def patches_of(image):
    """Return all patches as rows."""
    return extract_patches_2d(image, (SIDE, SIDE)).reshape(-1, SIDE**2)


# %%
# The dictionary is learned from patches of another part of the photo, without their means.

picture = camera()[60:156, 190:286] / 255
other = camera()[256:, :256] / 255
rng = np.random.default_rng(0)
rows = rng.permutation(patches_of(other))[:4000]
rows -= rows.mean(1, keepdims=True)
learning = fwnet.LpDictionaryLearning(96, p=1.0, radius=1.5, max_iter=8, random_state=0)
atoms = learning.fit(rows).components_

# %%
# ``weights`` marks the pixels that are there. The mean of the known pixels is removed first; a
# constant atom corrects it, since the mean of all pixels may be another.

D = torch.tensor(np.vstack([atoms, np.full((1, SIDE**2), 1 / SIDE)])).T
known = rng.random(picture.shape) > 0.5
mask = torch.tensor(patches_of(known.astype(float))) > 0.5
x = torch.tensor(patches_of(picture))
mean = (x * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
ball = fwnet.LpBall(p=1.2, radius=1.5)
code = fwnet.solve(x - mean, D, ball, weights=mask, tol=1e-3).code
filled = reconstruct_from_patches_2d(
    (code @ D.T + mean).numpy().reshape(-1, SIDE, SIDE), picture.shape
)
filled[known] = picture[known]

# %%
# Every pixel is the mean of what up to 64 patches say about it.

error = np.sqrt(np.mean((filled - picture)[~known] ** 2))
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
titles = ["half of the pixels", f"filled in, error {error:.3f}", "the picture"]
for axis, title, shown in zip(
    axes, titles, [np.where(known, picture, 0), filled, picture], strict=True
):
    axis.imshow(shown, cmap="gray", vmin=0, vmax=1)
    axis.set_title(title)
    axis.set_axis_off()
plt.show()
