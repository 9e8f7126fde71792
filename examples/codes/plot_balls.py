"""
Two questions to a ball: oracle and projection
==============================================

A set answers two questions. Its *oracle* says which of its points is farthest in a direction: one
formula, and all that a Frank-Wolfe step needs. Its *projection* says which of its points is nearest
to a given one: an equation that has to be solved, except for p = 1, 2 and ∞.
"""

import math

import matplotlib.pyplot as plt
import torch

import fwnet

direction = torch.tensor([-1.0, -0.6])
outside = torch.tensor([0.5, 1.4])
angles = torch.linspace(0, 2 * math.pi, 721)
circle = torch.stack([angles.cos(), angles.sin()], dim=-1)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
for index, p in enumerate([1.0, 1.3, 2.0, 4.0, math.inf]):
    ball = fwnet.LpBall(p)
    border = circle / ball.gauge(circle).unsqueeze(-1)  # gauge(z) = ‖z‖_p / radius
    for axis, point in ((left, ball.lmo(direction)), (right, ball.project(outside))):
        axis.plot(*border.T, color=f"C{index}", label=f"p = {p:g}".replace("inf", "∞"))
        axis.plot(*point, "o", color=f"C{index}")
arrow = {"arrowstyle": "<-", "color": "0.3"}
tip = (-0.5 * direction).tolist()
left.annotate("", xy=(0, 0), xytext=tip, arrowprops=arrow)
left.annotate("−u", tip, xytext=(-4, 6), textcoords="offset points", ha="right")
right.plot(*outside, "k*", markersize=10)
left.set_title("lmo(u) minimizes ⟨s, u⟩")
right.set_title("project(y) is nearest to y (star)")
for axis in (left, right):
    axis.set(aspect="equal", xlim=(-1.2, 1.6), ylim=(-1.2, 1.6))
    axis.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    axis.spines[["top", "right"]].set_visible(False)
right.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()

# %%
# Both work on rows of any batch, and both are differentiable in the point, in p and in the radius.

ball = fwnet.LpBall(p=1.3, radius=5.0)
z = ball.project(10 * torch.randn(1000, 100))
print(ball.contains(z).all(), ball.gauge(z).max())
