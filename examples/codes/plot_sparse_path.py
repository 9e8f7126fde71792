"""
p = 1 is the Lasso, with the radius in place of the penalty
===========================================================

At p = 1 the codes are sparse, and each radius corresponds to a penalty λ of
½‖x − Dz‖² + λ‖z‖₁. Growing the radius from 0 lets entries in one by one. ``solve_penalized`` solves
the penalized form, for every p, with its own certificate.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.linear_model import Lasso

import fwnet

torch.manual_seed(0)
D = torch.nn.functional.normalize(torch.randn(50, 100, dtype=torch.float64), dim=0)
true = torch.zeros(100, dtype=torch.float64)
true[[5, 20, 40, 60, 80]] = torch.tensor([2.0, -1.5, 1.0, -0.8, 0.5], dtype=torch.float64)
x = D @ true + 0.02 * torch.randn(50, dtype=torch.float64)

radii = torch.linspace(0.1, 9, 60).tolist()
codes = torch.cat([fwnet.solve(x[None], D, fwnet.LpBall(1.0, radius)).code for radius in radii])
figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
for entry in range(100):
    kept = true[entry] != 0
    axis.plot(radii, codes[:, entry], color="C0" if kept else "0.7", zorder=2 if kept else 1)
    if kept:
        axis.axhline(true[entry], color="C0", linestyle=":", linewidth=0.8)
axis.axvline(true.norm(1), color="0.3", linestyle="--", linewidth=0.8)
axis.annotate("norm of the true code", (true.norm(1), -1.4), (4, 0), textcoords="offset points")
axis.set(xlabel="radius", ylabel="entries of the code")
axis.set_title("Blue: the five entries of the true code. Gray: all others.", fontsize=10)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The same code three ways: by its radius, by its penalty, and by scikit-learn.

penalty = 0.05
ours = fwnet.solvers.solve_penalized(x[None], D, penalty, p=1.0)
radius = ours.code.norm(1).item()
constrained = fwnet.solve(x[None], D, fwnet.LpBall(1.0, radius)).code
lasso = Lasso(penalty / 50, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(D, x)
print(
    f"radius {radius:.3f}; largest differences: "
    f"{(constrained - ours.code).abs().max():.0e} to the constrained code, "
    f"{(torch.tensor(lasso.coef_) - ours.code).abs().max():.0e} to scikit-learn's"
)
