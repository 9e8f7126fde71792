"""
Codes of one signal for five p
==============================

One signal, one dictionary of 100 atoms, five balls. Small p gives codes with few large entries,
large p spreads the code over all atoms.
"""

import math

import matplotlib.pyplot as plt
import torch

import fwnet

torch.manual_seed(0)
D = torch.nn.functional.normalize(torch.randn(50, 100, dtype=torch.float64), dim=0)
x = torch.randn(1, 50, dtype=torch.float64)

# %%
# A radius means something else for every p. To give all of them the same task, we first ask for the
# shortest exact code: with a large radius, ``solve`` returns the code of least norm. Half of that
# norm is then the radius.

figure, axes = plt.subplots(1, 5, figsize=(11, 2.6), layout="constrained")
for axis, p in zip(axes, [1.0, 1.3, 2.0, 4.0, math.inf], strict=True):
    exact = fwnet.solve(x, D, fwnet.LpBall(p, radius=1e3)).code
    radius = 0.5 * exact.norm(p).item()
    solution = fwnet.solve(x, D, fwnet.LpBall(p, radius))
    code = solution.code[0]
    axis.vlines(range(100), 0, code, linewidth=1)
    axis.axhline(0, color="0.3", linewidth=0.8)
    axis.set(title=f"p = {p:g}".replace("inf", "∞"), xticks=[], yticks=[])
    axis.spines[["top", "right", "bottom", "left"]].set_visible(False)
    used = int((code.abs() > 1e-3 * code.abs().max()).sum())
    error = (x - code @ D.T).norm() / x.norm()
    print(
        f"p = {p:3g}   radius {radius:5.2f}   entries above 0.1 % of the largest: {used:3d}   "
        f"error {error:.2f}   gap {solution.gap.item():.0e}   {solution.status[0]}"
    )
plt.show()
