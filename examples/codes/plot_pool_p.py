"""
The unit pool_p, from p = 1 to p = ∞
====================================

``pool_p(u)`` is the point of the unit ball of the Lp norm that minimizes ⟨s, u⟩. It has the signs
of −u. How it shares out the magnitudes depends on p:

* p = 1 gives everything to the largest entry, like max pooling,
* p = 2 divides −u by its length, like a normalization,
* p = ∞ gives every entry the same magnitude, like a sign function.
"""

import math

import matplotlib.pyplot as plt
import torch

import fwnet

u = torch.tensor([-1.0, 0.55, -0.9, 0.1, -0.3, 0.75, -0.05, 0.2])
exponents = [1.0, 1.3, 2.0, 4.0, math.inf]
pooled = {f"p = {p:g}": fwnet.pool_p(u, p) for p in exponents}

figure, axes = plt.subplots(1, 6, figsize=(11, 2.6), sharey=True, layout="constrained")
for axis, (title, values) in zip(axes, ({"−u": -u} | pooled).items(), strict=True):
    axis.bar(range(len(u)), values, color="0.6" if title == "−u" else "C0")
    axis.axhline(0, color="0.3", linewidth=0.8)
    axis.set(title=title.replace("inf", "∞"), xticks=[])
    axis.spines[["top", "right", "bottom"]].set_visible(False)
plt.show()

# %%
# All of them have norm 1, and reach the bound −‖u‖_q of Hölder's inequality, where q = p/(p − 1).

for p in exponents:
    s = fwnet.pool_p(u, p)
    q = fwnet.dual_exponent(p)
    print(
        f"p = {p:3g}   ‖s‖_p = {s.norm(p):.4f}   ⟨s, u⟩ = {s @ u:.4f}   −‖u‖_q = {-u.norm(q):.4f}"
    )

# %%
# The length of u makes no difference, and p has a gradient: a network can learn it.

p = torch.tensor(1.3, requires_grad=True)
s = fwnet.pool_p(1000 * u, p)
s.abs().max().backward()
print(f"d(largest entry)/dp = {p.grad:.3f}")
