"""Forward and backward of pool_p and of the Frank-Wolfe step, differentiable.

The contract of a kernel is that of `reference`. With u = a (+ b) and s = pool_p(u),

    forward(a, b, z, step_size, excess, radius, eps, dim)          -> s,  γ·s  or  (1 − γ)·z + γ·s
    backward(grad, a, b, z, step_size, excess, radius, eps, dim)
                                   -> gradients for u (both a and b), z, p, radius and step_size

b, z and step_size may be None (the gradient of an absent one is a placeholder); excess = p − 1,
radius and step_size are 0-dim tensors. In every edge case a kernel agrees with the reference.
`run` is the forward of the contract, joined to autograd, with the fastest kernel. Arguments
are not checked here but in `fwnet.functional`.
"""

from fwnet.kernels.autograd import run, select, use_reference

__all__ = ["run", "select", "use_reference"]
