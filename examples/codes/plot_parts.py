"""
Parts of digits: nonnegative atoms and codes
============================================

With ``nonnegative=True`` atoms and codes of ``LpDictionaryLearning`` have no negative entries, so
parts can only add up. That is nonnegative matrix factorization with a bound on every code. Atoms
begin as digits of the data, and a bound favors few of them per digit, so they are larger than
those of NMF.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

import fwnet

X = load_digits().data / 16
X /= np.linalg.norm(X, axis=1, keepdims=True)
nmf = NMF(16, init="nndsvda", random_state=0, max_iter=500).fit(X)
models = {"scikit-learn's NMF": (nmf.components_, nmf.transform(X))}
for p, radius in ((1.0, 3.0), (1.0, 1.3)):
    model = fwnet.LpDictionaryLearning(
        16, p=p, radius=radius, nonnegative=True, max_iter=30, random_state=0
    ).fit(X)
    models[f"p = {p:g}, radius {radius:g}"] = (model.components_, model.transform(X))

# %%
# Every tile is an atom. Below: the relative error, and how many atoms a digit uses, measured by
# ‖z‖₁²/‖z‖₂², which is k for k equal entries.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.9), layout="constrained")
for axis, (name, (atoms, codes)) in zip(axes, models.items(), strict=True):
    error = np.linalg.norm(X - codes @ atoms) / np.linalg.norm(X)
    weights = codes * np.linalg.norm(atoms, axis=1)
    used = (weights.sum(1) ** 2 / np.square(weights).sum(1)).mean()
    tiles = (atoms / atoms.max(axis=1, keepdims=True)).reshape(4, 4, 8, 8)
    tiles = np.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=0.4)
    axis.imshow(tiles.transpose(0, 2, 1, 3).reshape(36, 36), cmap="gray_r", vmin=0, vmax=1)
    axis.set_title(f"{name}\nerror {error:.1%}, about {used:.1f} atoms", fontsize=10)
    axis.set_axis_off()
    print(f"{name}: error {error:.3f}, {used:.1f} atoms per digit")
plt.show()
