"""
Learn a dictionary of image patches
===================================

``LpDictionaryLearning`` finds atoms and codes together. With p near 1 a patch is made of few atoms,
and many atoms look like edges; with p = 2 most atoms take part in every patch, and few look like
anything.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import camera
from sklearn.feature_extraction.image import extract_patches_2d

import fwnet

patches = extract_patches_2d(camera() / 255, (8, 8), max_patches=6000, random_state=0)
X = patches.reshape(len(patches), -1)
X = X - X.mean(axis=1, keepdims=True)
X = X[np.linalg.norm(X, axis=1) > 0.3]  # patches that are not flat
X /= np.linalg.norm(X, axis=1, keepdims=True)

# %%
# The estimator has scikit-learn's form: rows are samples, ``components_`` holds an atom per row.
# How many atoms a patch uses is measured by ‖z‖₁²/‖z‖₂², which is k for k equal entries.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.7), layout="constrained")
for axis, p in zip(axes, (1.0, 1.3, 2.0), strict=True):
    model = fwnet.LpDictionaryLearning(64, p=p, radius=1.0, max_iter=10, random_state=0).fit(X)
    codes = model.transform(X[:500])
    used = np.abs(codes).sum(1) ** 2 / np.square(codes).sum(1)
    atoms = model.components_.reshape(8, 8, 8, 8)
    atoms = atoms / np.abs(atoms).max(axis=(2, 3), keepdims=True)
    tiles = np.pad(atoms, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=1.0)
    axis.imshow(tiles.transpose(0, 2, 1, 3).reshape(72, 72), cmap="gray", vmin=-1, vmax=1)
    axis.set_title(f"p = {p:g}: about {used.mean():.0f} atoms per patch")
    axis.set_axis_off()
plt.show()
