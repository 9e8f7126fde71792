"""
Differentiate through the solver
================================

The code that ``solve`` returns has gradients in the signal, the dictionary, the radius and p,
through its optimality conditions. So a solver can be a layer, and p and the radius can be found by
gradient descent on whatever the codes are for: here, to match codes that were made with p = 1.4 and
radius 3.
"""

import matplotlib.pyplot as plt
import torch

import fwnet

torch.manual_seed(0)
D = torch.nn.functional.normalize(torch.randn(30, 50, dtype=torch.float64), dim=0)
x = 3 * torch.randn(200, 30, dtype=torch.float64)
target = fwnet.solve(x, D, fwnet.LpBall(p=1.4, radius=3.0)).code

# %%
# p > 1 is kept by learning log(p − 1), and radius > 0 by learning its logarithm.

log_excess = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
log_radius = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([log_excess, log_radius], lr=0.1)
path = []
for _ in range(80):
    ball = fwnet.LpBall(p=1 + log_excess.exp(), radius=log_radius.exp())
    path.append((ball.p.item(), ball.radius.item()))
    loss = (fwnet.solve(x, D, ball).code - target).square().sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

figure, axis = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
axis.plot(*zip(*path, strict=True), ".-", label="gradient descent")
axis.plot(*path[0], "ko", label="start")
axis.plot(1.4, 3.0, "r*", markersize=12, label="true")
axis.set(xlabel="p", ylabel="radius")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

print(f"found p = {path[-1][0]:.4f}, radius = {path[-1][1]:.4f}")
