"""
Which p suits my data?
======================

``LpDictionaryLearning(p="learn")`` holds back a quarter of the samples, hides a part of the entries
of each, and keeps the p whose codes predict the hidden entries best.
"""

import matplotlib.pyplot as plt
import numpy as np

import fwnet

rng = np.random.default_rng(0)


def signals(p, count=1500, n=16, m=32):
    """Draw codes from the density exp(−|z|^p), at p = 1 a tenth of their entries; mix the atoms."""
    D = rng.standard_normal((m, n))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    codes = rng.gamma(1 / p, size=(count, m)) ** (1 / p) * rng.choice([-1, 1], (count, m))
    sparse = codes * (rng.random((count, m)) < (0.1 if p == 1 else 1))
    return sparse @ D + 0.05 * rng.standard_normal((count, n))


# %%
# One set of signals has a few large entries in its codes, the other spreads them over all atoms.

figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, p in (("few atoms per signal", 1), ("all atoms in every signal", 2)):
    X = signals(p)
    X /= np.sqrt(np.square(X).sum(1).mean())  # root mean square norm 1
    model = fwnet.LpDictionaryLearning(32, p="learn", radius=1.0, max_iter=15, random_state=0)
    model.fit(X)
    (line,) = axis.plot(1 / np.array(model.p_path_), model.held_out_error_, "o-", label=name)
    axis.axvline(1 / model.p_, color=line.get_color(), linestyle=":")
    print(f"{name}: p = {model.p_:.2f}")
ticks = [1, 1.2, 1.5, 2, 4]
axis.set(
    xlabel="p", ylabel="error on hidden entries", xticks=[1 / t for t in ticks], xticklabels=ticks
)
axis.invert_xaxis()
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()
