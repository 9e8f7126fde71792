"""
A p and a radius that nobody knows
==================================

``learn_ball`` hides a part of the entries of each signal, codes the others, and takes the p and the
radius whose codes predict the hidden entries best. It also says which balls the data allow.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import fwnet

generator = torch.Generator().manual_seed(0)
D = torch.randn(32, 10, generator=generator, dtype=torch.float64)
codes = fwnet.LpBall(1.5, 2.0).project(torch.randn(200, 10, generator=generator).double())
clean = codes @ D.T
noise = torch.randn(clean.shape, generator=generator, dtype=torch.float64)

# %%
# Codes were made with p = 1.5 and radius 2. Neither is told.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for level, color in ((0.03, "C0"), (0.3, "C1")):
    x = clean + level * clean.square().mean().sqrt() * noise
    learned = fwnet.coding.learn_ball(x, D)
    print(
        f"noise {level:.0%}: p = {learned.p:.2f} in [{learned.p_interval[0]:.2f}, "
        f"{learned.p_interval[1]:.2f}], radius = {learned.radius:.2f} in "
        f"[{learned.radius_interval[0]:.2f}, {learned.radius_interval[1]:.2f}]"
    )
    for doubt in learned.doubts:
        print("   doubt:", doubt)
    trials = np.array(learned.trials)
    own = trials[trials[:, 0] == learned.p]
    left.plot(own[:, 1], own[:, 2] / learned.error, "o-", color=color, label=f"noise {level:.0%}")
    exponents = np.unique(trials[:, 0])
    least = [trials[trials[:, 0] == p, 2].min() / learned.error for p in exponents]
    right.plot(1 / exponents, least, "o-", color=color)
    right.axvspan(*(1 / np.array(learned.p_interval)), color=color, alpha=0.15)
    left.axvspan(*learned.radius_interval, color=color, alpha=0.15)
left.axvline(2.0, color="0.5", linestyle=":")
right.axvline(1 / 1.5, color="0.5", linestyle=":", label="truth")
left.set(xlabel="radius, at the best p", ylabel="held-out error ÷ smallest held-out error")
left.set(xlim=(1.7, 2.6), ylim=(0.98, 1.3), title="the radius")
ticks = [1, 1.2, 1.5, 2, 3, 5]
right.set(
    xlabel="p, each at its best radius (shaded: 95 % interval)",
    xticks=[1 / t for t in ticks],
    xticklabels=ticks,
)
right.set(ylim=(0.99, 1.15), title="p")
right.invert_xaxis()
for axis in (left, right):
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# A radius that is too small misses the signals, and the error rises steeply; one that is too large
# only lets more noise in, and the curve levels off. With much noise the minimum is flat: the
# shaded intervals are wide, and the doubts say so.
