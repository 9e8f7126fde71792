"""
Adversarial changes of digits in an Lp ball
===========================================

``minimize`` finds the change of an image, no longer than a radius, that lowers a classifier's
margin most. The oracle makes the steps: no projection is needed. Here 20 steps with a line search,
beside 100 projected gradient steps.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fwnet

torch.manual_seed(0)
torch.set_num_threads(1)
X, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
X = (X / 16).float()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, test_size=200)
classifier = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(classifier.parameters(), 1e-2)
for _ in range(200):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(classifier(X_train), y_train).backward()
    optimizer.step()
classifier.requires_grad_(False)
right = classifier(X_test).argmax(1) == y_test
x, label = X_test[right], y_test[right]
print(f"{right.float().mean():.1%} of {len(y_test)} test digits are classified correctly")


def margin(change):
    """Return how far the right class is ahead of the others: below 0, the attack succeeded."""
    scores = classifier(x + change)
    others = scores.scatter(1, label[:, None], -torch.inf).amax(1)
    return scores.gather(1, label[:, None]).squeeze(1) - others


def frank_wolfe(ball):
    """Return the changes that `minimize` finds."""
    start = torch.zeros_like(x)
    return fwnet.minimize(margin, ball, start, variant="plain", max_steps=20).point


def projected_gradient(ball):
    """Take normalized steps and keep the best point of each row."""
    change = best = torch.zeros_like(x)
    for step in range(100):
        change = change.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(margin(change).sum(), change)
        longest = (ball.lmo(torch.ones_like(x[:1]))).norm()
        size = 2 * longest / (step + 2)
        change = ball.project(change - size * gradient / gradient.norm(dim=1, keepdim=True))
        better = margin(change) < margin(best)
        best = torch.where(better[:, None], change, best)
    return best


# %%
# Radii are such that a change is about as long in every norm. Success is the share of digits that
# are then classified wrongly; the length is that of the changes that succeed, as L2 norm.

radii = {1.0: (1, 2, 3, 4), 1.5: (0.6, 1.2, 1.8, 2.4), 2.0: (0.4, 0.8, 1.2, 1.6)}
radii[torch.inf] = (0.06, 0.12, 0.18, 0.24)
figure, axes = plt.subplots(1, 4, figsize=(10, 3), sharey=True, layout="constrained")
for axis, (p, sizes) in zip(axes, radii.items(), strict=True):
    success = {"Frank-Wolfe": [], "projected gradient": []}
    for radius in sizes:
        ball = fwnet.LpBall(p, float(radius))
        line = f"p = {p:g}, radius {radius:g}:"
        for name, attack in zip(success, (frank_wolfe, projected_gradient), strict=True):
            change = attack(ball)
            assert ball.contains(change, tol=1e-4).all()
            fooled = margin(change) < 0
            success[name].append(fooled.float().mean())
            length = change[fooled].norm(dim=1).mean()
            line += f"  {name} {success[name][-1]:.1%}, length {length:.2f}"
        print(line)
    for name, values in success.items():
        axis.plot(sizes, values, marker="o", label=name)
    axis.set(title=f"p = {p:g}", xlabel="radius", ylim=(0, 1))
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share classified wrongly")
axes[0].legend(frameon=False)
plt.show()
