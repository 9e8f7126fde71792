"""
Choosing p and radius by entries that were left out
===================================================

The reconstruction error cannot choose a ball: a larger ball always fits better. What chooses it is
how well a code predicts entries that it has not seen. Here a fifth of the pixels of small digits is
hidden, the others are coded, and the error on the hidden ones is measured.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import fwnet

torch.manual_seed(0)
X = torch.tensor(load_digits().data / 16)
train, held_out = X[:1000], X[1000:1200]
dictionary = fwnet.LpDictionaryLearning(48, p=1.3, radius=4.0, max_iter=10, random_state=0)
D = torch.tensor(dictionary.fit(train.numpy()).components_).T  # one atom per column

# %%
# ``weights`` is a mask: entries where it is False count as missing.

seen = torch.rand(held_out.shape) > 0.2
radii = [0.5, 1, 1.5, 2, 3, 4, 6, 8, 12]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for p in (1.0, 1.3, 2.0):
    errors = {"seen": [], "hidden": []}
    for radius in radii:
        code = fwnet.solve(held_out, D, fwnet.LpBall(p, radius), weights=seen, tol=1e-6).code
        wrong = (held_out - code @ D.T).square()
        errors["seen"].append(wrong[seen].mean().sqrt())
        errors["hidden"].append(wrong[~seen].mean().sqrt())
    left.plot(radii, errors["seen"], "o-", label=f"p = {p:g}")
    right.plot(radii, errors["hidden"], "o-", label=f"p = {p:g}")
left.set(title="pixels that were coded", ylabel="root mean square error")
right.set(title="pixels that were hidden")
right.legend(frameon=False)
for axis in (left, right):
    axis.set(xlabel="radius", xscale="log")
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# On the left every curve falls: a larger radius never fits worse, and at the same radius nor does a
# larger p. On the right every curve has its minimum at a radius of its own.
