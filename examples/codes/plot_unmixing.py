"""
Shares of substances in a spectrum
==================================

A pixel of a hyperspectral image is a mixture: x = Dz with a spectrum of a pure substance in every
column of D, and shares z ≥ 0 that add up to 1. The codes on a simplex are these shares. The spectra
are simulated: sums of a few Gaussian bands.
"""

import matplotlib.pyplot as plt
import torch

import fwnet

torch.manual_seed(0)
wavelengths = torch.linspace(0.4, 2.5, 120, dtype=torch.float64)
centers, widths = (
    0.4 + 2.1 * torch.rand(6, 4, 1).double(),
    0.05 + 0.25 * torch.rand(6, 4, 1).double(),
)
bands = torch.exp(-(((wavelengths - centers) / widths) ** 2))
D = (0.2 + (torch.rand(6, 4, 1).double() * bands).sum(1)).T

# %%
# A scene of 48 × 48 pixels with soft borders between the substances, and 10 % of noise.

place = torch.cartesian_prod(*2 * [torch.linspace(0, 1, 48, dtype=torch.float64)])
distance = torch.cdist(place, torch.rand(6, 2, dtype=torch.float64))
shares = torch.softmax(-12 * distance, dim=1)
x = shares @ D.T
x = x + 0.1 * x.square().mean().sqrt() * torch.randn_like(x)
solution = fwnet.solve(x, D, fwnet.Simplex())
assert solution.certified.all()
plain = torch.linalg.lstsq(D, x.T).solution.T


def error(z):
    """Return the root mean square error of a share."""
    return (z - shares).square().mean().sqrt()


print(f"{len(x)} pixels, all certified, {int(solution.num_steps.max())} steps at most")
print(f"error of a share: {error(solution.code):.4f}; by plain least squares: {error(plain):.4f}")
print(f"plain least squares gives shares from {plain.min():.2f} to {plain.max():.2f}")

figure, axes = plt.subplots(3, 6, figsize=(9, 4.6), layout="constrained")
rows = {"true": shares, "simplex": solution.code, "least squares": plain}
for line, (name, z) in zip(axes, rows.items(), strict=True):
    for substance, axis in enumerate(line):
        axis.imshow(z[:, substance].reshape(48, 48), cmap="viridis", vmin=-0.2, vmax=1)
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)
plt.show()
