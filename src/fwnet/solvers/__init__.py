"""Solvers: certified codes from `solve`, and the classical methods to compare with."""

from fwnet.solvers.auto import Auto
from fwnet.solvers.certified import METHODS, solve
from fwnet.solvers.coordinate_descent import CoordinateDescent
from fwnet.solvers.cvx import CVX
from fwnet.solvers.frank_wolfe import FrankWolfe, Harmonic, PairwiseFrankWolfe, ShortStep
from fwnet.solvers.ksvd import KSVD, ksvd
from fwnet.solvers.loop import SolveProgress
from fwnet.solvers.minimization import MinimizeProgress, Minimum, minimize
from fwnet.solvers.omp import omp
from fwnet.solvers.penalized import solve_penalized
from fwnet.solvers.projected_gradient import ProjectedGradient
from fwnet.solvers.proximal import FISTA, ISTA
from fwnet.solvers.solution import Solution, Status, UncertifiedWarning
from fwnet.solvers.splitting import ADMM

__all__ = [
    "ADMM",
    "CVX",
    "FISTA",
    "ISTA",
    "KSVD",
    "METHODS",
    "Auto",
    "CoordinateDescent",
    "FrankWolfe",
    "Harmonic",
    "MinimizeProgress",
    "Minimum",
    "PairwiseFrankWolfe",
    "ProjectedGradient",
    "ShortStep",
    "Solution",
    "SolveProgress",
    "Status",
    "UncertifiedWarning",
    "ksvd",
    "minimize",
    "omp",
    "solve",
    "solve_penalized",
]
