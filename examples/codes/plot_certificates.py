"""
Certificates: how far from the optimum?
=======================================

Every code comes with a *gap*: no code in the ball has an objective that is lower by more than that.
The gap is computed from the signal, the dictionary and the ball alone, whichever method found the
code, so methods can be compared by it.
"""

import matplotlib.pyplot as plt
import torch

import fwnet
from fwnet.solvers import Auto, FrankWolfe, ShortStep

torch.manual_seed(0)
D = torch.nn.functional.normalize(torch.randn(50, 100, dtype=torch.float64), dim=0)
x = torch.randn(200, 50, dtype=torch.float64)
ball = fwnet.LpBall(p=1.3, radius=2.5)
energy = 0.5 * x.square().sum(-1)

methods = {
    "Frank-Wolfe, γ = 2/(t + 2)": (FrankWolfe(), 1000),
    "Frank-Wolfe, line search": (FrankWolfe(step_rule=ShortStep()), 200),
    "fwnet.solve": (Auto(), 6),
}
figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for name, (method, most) in methods.items():
    counts = sorted({round(most ** (i / 12)) for i in range(13)})
    gaps = []
    for count in counts:
        solution = fwnet.solve(x, D, ball, method=method, max_steps=count, tol=1e-14)
        gaps.append((solution.gap / energy).max().clamp(min=1e-16))
    axis.loglog(counts, gaps, "o-", label=name)
axis.set(xlabel="steps", ylabel="largest gap of 200 codes / ½‖x‖²")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The status says in words how the search for each code ended.

print(fwnet.solve(x, D, ball))
print(fwnet.solve(x, D, ball, method="frank-wolfe", max_steps=10))
