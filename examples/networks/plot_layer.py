"""
The unit as a layer of your own network
=======================================

``fwnet.nn.PoolP`` is an ordinary ``torch.nn.Module``. Here it takes the place of ReLU in a small
network for digits, and learns its p with the weights, by the same optimizer.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import fwnet

torch.manual_seed(0)
torch.set_num_threads(1)
digits = load_digits()
X = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
train, test = slice(0, 1200), slice(1200, None)


def network(unit):
    """Return two layers with a unit between them, and a softmax on top."""
    return nn.Sequential(nn.Linear(64, 100), unit, nn.Linear(100, 10))


def fit(net, epochs=60):
    """Train with Adam; return the test errors, and p where the network has one."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    errors, exponents = [], []
    for _ in range(epochs):
        for rows in torch.randperm(1200).split(100):
            loss = nn.functional.cross_entropy(net(X[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            errors.append((net(X[test]).argmax(1) != y[test]).double().mean().item() * 100)
        exponents.append(net[1].p.item() if isinstance(net[1], fwnet.nn.PoolP) else None)
    return errors, exponents


# %%
# The radius sets how large the layer's output is: at p = 2 the root of the number of entries, here
# 10, gives entries of about 1.

runs = {f"PoolP from p = {p:g}": fwnet.nn.PoolP(p=p, radius=10.0) for p in (1.2, 2.0, 4.0)}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for name, unit in ({"ReLU": nn.ReLU()} | runs).items():
    errors, exponents = fit(network(unit))
    color = "0.5" if name == "ReLU" else None
    left.plot(errors, color=color, label=f"{name}: {errors[-1]:.1f} %")
    if exponents[0] is not None:
        right.plot(exponents, color=left.lines[-1].get_color(), label=name)
left.set(xlabel="epoch", ylabel="test error, %", ylim=(0, 15))
right.set(xlabel="epoch", ylabel="p")
left.legend(frameon=False)
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# From 1.2 or 2 the layer does as well as ReLU. From 4 it is less steady: for p > 2 the unit has an
# infinite slope at 0. Begin between 1.2 and 2 unless you have a reason.
