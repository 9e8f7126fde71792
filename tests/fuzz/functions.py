"""Public functions, sets, layers, networks and estimators with arguments nobody meant."""

import functools
import math
import traceback
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

import fwnet
from fwnet.functional import frank_wolfe_step, lp_norm, pool_excess, shrink
from tests.fuzz.edits import odd_words
from tests.fuzz.registry import Tried, target

Good = dict[str, Callable[[], Any]]


def randn(*shape: int) -> Callable[[], Tensor]:
    """Return what draws the same tensor every time."""
    return lambda: torch.randn(shape, generator=torch.Generator().manual_seed(0)).double()


def just(value: Any) -> Callable[[], Any]:
    """Return what returns a value, whatever it is given."""
    return lambda *_: value


X, D = randn(3, 4), randn(4, 6)
BALL = just(fwnet.LpBall(1.5, 1.0))

# Functions and arguments that are right. Those that only make the work longer are not changed.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Good]] = {
    "pool_p": (fwnet.pool_p, {"u": X, "p": just(1.3), "radius": just(2.0), "dim": just(-1)}),
    "pool_p with eps": (fwnet.pool_p, {"u": X, "p": just(1.3), "eps": just(1e-3)}),
    "pool_excess": (pool_excess, {"u": X, "excess": just(0.3), "radius": just(2.0)}),
    "frank_wolfe_step": (
        frank_wolfe_step,
        {"z": X, "a": X, "b": X, "step_size": just(0.5), "excess": just(0.3), "dim": just(1)},
    ),
    "lp_norm": (lp_norm, {"z": X, "p": just(1.3)}),
    "shrink": (shrink, {"v": X, "radius": just(1.0), "free_entries": just(1)}),
    "soft_threshold": (fwnet.soft_threshold, {"u": X, "threshold": just(0.1)}),
    "dual_exponent": (fwnet.dual_exponent, {"p": just(1.3)}),
    "solve": (
        lambda **options: fwnet.solve(**options, max_steps=200),
        {"x": X, "dictionary": D, "convex_set": BALL, "tol": just(1e-6)},
    ),
    "solve with weights": (
        lambda **options: fwnet.solve(**options, max_steps=200),
        {"x": X, "dictionary": D, "convex_set": BALL, "weights": lambda: torch.ones(4)},
    ),
    "solve with a start": (
        lambda **options: fwnet.solve(**options, method="frank-wolfe", max_steps=20),
        {"x": X, "dictionary": D, "convex_set": BALL, "start": randn(3, 6)},
    ),
    "solve with a method": (
        lambda **options: fwnet.solve(X(), D(), BALL(), **options),
        {"method": just("fista"), "max_steps": just(5), "time_limit": just(1.0)},
    ),
    "solve_penalized": (
        lambda **options: fwnet.solvers.solve_penalized(**options, max_steps=200),
        {"x": X, "dictionary": D, "penalty": just(0.1), "p": just(1.5)},
    ),
    "minimize": (
        lambda **options: fwnet.minimize(lambda z: z.square().sum(-1), **options, max_steps=20),
        {"convex_set": BALL, "start": randn(2, 6), "tol": just(1e-3), "variant": just("away")},
    ),
    "omp": (fwnet.solvers.omp, {"x": X, "dictionary": D, "num_nonzeros": just(2)}),
    "ksvd": (
        lambda **options: fwnet.solvers.ksvd(**options, num_rounds=2),
        {"x": randn(20, 4), "num_atoms": just(5), "num_nonzeros": just(2), "seed": just(0)},
    ),
    "code_error": (fwnet.metrics.code_error, {"code": X, "target": X}),
    "error_rate": (
        fwnet.metrics.error_rate, {"scores": X, "labels": lambda: torch.tensor([0, 1, 2])}
    ),
    "psnr": (fwnet.metrics.psnr, {"image": randn(1, 1, 12, 12), "clean": randn(1, 1, 12, 12)}),
    "ssim": (fwnet.metrics.ssim, {"image": randn(1, 1, 12, 12), "clean": randn(1, 1, 12, 12)}),
    "shave": (fwnet.metrics.shave, {"image": randn(1, 1, 12, 12), "border": just(2)}),
    "as_displayed": (fwnet.metrics.as_displayed, {"image": X}),
    "enlarge": (fwnet.resize.enlarge, {"x": randn(1, 1, 6, 6), "scale": just(2)}),
    "resize.shrink": (fwnet.resize.shrink, {"x": randn(1, 1, 6, 6), "scale": just(2)}),
    "synthetic_codes": (
        lambda **options: fwnet.data.synthetic_codes(**options, num_train=20, num_test=5),
        {"p": just(1.3), "num_features": just(5), "num_atoms": just(8), "seed": just(0)},
    ),
    "noisy": (fwnet.data.noisy, {"image": X, "sigma": just(0.1), "index": just(0)}),
    "to_gray": (fwnet.data.to_gray, {"pixels": lambda: np.zeros((4, 4, 3), np.uint8)}),
    "to_luma": (fwnet.data.to_luma, {"pixels": lambda: np.zeros((4, 4, 3), np.uint8)}),
    "estimate_noise": (
        fwnet.imaging.estimate_noise, {"pixels": lambda: X().numpy()[..., None].clip(0, 1)}
    ),
    "learn_ball": (
        lambda **options: fwnet.coding.learn_ball(**options),
        {"x": randn(12, 4), "dictionary": D, "p": just(1.5), "radius": just(1.0)},
    ),
    "structured_codes": (
        lambda **options: fwnet.coding.structured_codes(**options),
        {"x": X, "labels": lambda: torch.tensor([0, 1, 1]), "widths": just([1, 2])},
    ),
    "load_model": (fwnet.load_model, {"name_or_path": just("nosuch"), "device": just("cpu")}),
    "list_models": (fwnet.list_models, {"task": just("denoise")}),
    "TrainingConfig": (
        fwnet.training.TrainingConfig,
        {"num_epochs": just(1), "learning_rate": just(0.1), "schedule": just("step"),
         "decay_at": just([0.5]), "seed": just(0), "precision": just("float32")},
    ),
    "set_from_config": (
        fwnet.sets.set_from_config, {"config": just({"set": "Box", "low": 0.0, "high": 1.0})}
    ),
}  # fmt: skip


def _set_methods() -> None:
    sets: dict[str, tuple[Callable[..., Any], Good]] = {
        "LpBall": (fwnet.LpBall, {"p": just(1.5), "radius": just(1.0)}),
        "NonnegativeLpBall": (fwnet.NonnegativeLpBall, {"p": just(1.5), "radius": just(1.0)}),
        "Simplex": (fwnet.Simplex, {"total": just(1.0), "cap": just(0.5)}),
        "Box": (fwnet.Box, {"low": just(-1.0), "high": just(1.0)}),
        "GroupLpBall": (
            fwnet.GroupLpBall,
            {"groups": just([[0, 1], [2, 3], [4, 5]]), "p": just(1.5), "inner": just(2.0)},
        ),
        "KSupportBall": (fwnet.KSupportBall, {"k": just(2), "radius": just(1.0)}),
        "SortedL1Ball": (
            fwnet.SortedL1Ball,
            {"weights": just([3.0, 2.0, 1.0, 1.0, 1.0, 1.0]), "radius": just(1.0)},
        ),
        "SchattenBall": (
            fwnet.SchattenBall, {"shape": just((2, 3)), "p": just(1.5), "radius": just(1.0)}
        ),
    }  # fmt: skip
    for name, (kind, good) in sets.items():
        for method in ("lmo", "project", "gauge", "support", "contains"):
            FUNCTIONS[f"{name}.{method}"] = (
                functools.partial(_of_set, kind, method), {**good, "y": randn(2, 6)}
            )  # fmt: skip


def _of_set(kind: Any, method: str, y: Any, **options: Any) -> Any:
    result = getattr(kind(**options), method)(y)
    sizes = [abs(value) for value in options.values() if isinstance(value, float)]
    exact = result.dtype == torch.float64 and all(v == 0 or v > 1e-290 for v in sizes)
    if method in ("lmo", "project") and exact and result.isfinite().all():
        assert kind(**options).contains(result, tol=1e-6).all(), "outside of the set"
    return result


_set_methods()
SIZES = {"num_features": just(4), "num_atoms": just(6)}
X32 = lambda: X().float()  # noqa: E731
IMAGE = lambda: randn(1, 1, 12, 12)().float()  # noqa: E731


def _run(make: Any, method: str = "__call__", **options: Any) -> Any:
    """Make a module and apply it to x."""
    x = options.pop("x")
    more = {"sigma": options.pop("sigma")} if "sigma" in options else {}
    return getattr(make(**options), method)(x, **more)


def module(make: Any, x: Callable[[], Any], **good: Any) -> tuple[Callable[..., Any], Good]:
    """Return a module and its input as a function."""
    return functools.partial(_run, make), {"x": x} | {n: just(v) for n, v in good.items()}


FUNCTIONS |= {
    "nn.PoolP": module(fwnet.nn.PoolP, X32, p=1.5, radius=1.0, dim=-1, eps=0.0),
    "nn.FWCell": module(
        lambda **o: fwnet.nn.FWCell(**o, hidden_size=5), X32, input_size=4, p=1.5, step_size=0.5
    ),
    "FWNet": module(
        lambda **o: fwnet.FWNet(4, 6, 2, **o), X32, p=1.5, radius=1.0, step_sizes=[1.0, 0.5]
    ),
    "FWNet, line search": module(
        lambda **o: fwnet.FWNet(4, 6, 2, **o), X32, line_search="exact", radius=1.0
    ),
    "FWNet, sizes": module(
        lambda **o: fwnet.FWNet(**o, num_layers=2), X32, num_features=4, num_atoms=6
    ),
    "LISTA": module(lambda **o: fwnet.LISTA(**o, num_layers=2), X32, num_features=4, num_atoms=6),
    "LCoD": module(lambda **o: fwnet.LCoD(**o, num_layers=2), X32, num_features=4, num_atoms=6),
    "MLP": module(lambda **o: fwnet.MLP(**o, num_layers=2), X32, num_features=4, num_atoms=6),
    "ConvFWNet": module(
        lambda **o: fwnet.ConvFWNet(2, **o), IMAGE, channels=3, kernel_size=3, p=1.5, scale=1
    ),
    "ConvLISTA": module(lambda **o: fwnet.ConvLISTA(2, **o), IMAGE, channels=3, kernel_size=3),
    "DnCNN": module(lambda **o: fwnet.DnCNN(3, **o), IMAGE, channels=3),
    "a noise level": module(
        lambda **o: fwnet.ConvFWNet(2, 3, noise_level_input=True, **o), IMAGE, sigma=0.1
    ),
}
MODULES = {name for name, (function, _) in FUNCTIONS.items()
           if isinstance(function, functools.partial) and function.func is _run}  # fmt: skip


def _of_estimator(name: str, **options: Any) -> Any:
    x = options.pop("X")
    return getattr(fwnet, name)(**options).fit(x).transform(x)


def estimator(name: str, **good: Any) -> tuple[Callable[..., Any], Good]:
    """Return an estimator and its data as a function."""
    rows = lambda: randn(20, 4)().numpy()  # noqa: E731
    return functools.partial(_of_estimator, name), {"X": rows} | {
        n: just(v) for n, v in good.items()
    }


FUNCTIONS |= {
    "LpCoder": estimator("LpCoder", dictionary=np.eye(4), p=1.5, radius=1.0, tol=1e-6),
    "LpDictionaryLearning": estimator(
        "LpDictionaryLearning", n_components=5, p=1.5, radius=1.0, max_iter=1
    ),
    "FWNetCoder": estimator(
        "FWNetCoder", n_components=5, p=1.5, radius=1.0, num_layers=2, max_iter=1
    ),
}


@functools.cache
def small_network() -> Any:
    torch.manual_seed(0)
    return fwnet.ConvFWNet(2, 3, scale=1).eval()


FUNCTIONS |= {
    "denoise": (
        lambda **options: fwnet.denoise(model=small_network(), **options),
        {"image": lambda: np.zeros((9, 8), np.uint8), "strength": just(1.0), "tile": just(32)},
    ),
    "upscale": (
        lambda **options: fwnet.upscale(model=small_network(), **options),
        {"image": lambda: np.zeros((9, 8, 3)), "scale": just(2), "tile": just(32)},
    ),
    "noise_level": (
        fwnet.imaging.noise_level, {"pixels": lambda: np.zeros((9, 8, 1), np.uint8)}
    ),
}  # fmt: skip


def _tensor(change: Callable[[Tensor], Any]) -> Callable[[Any], Any]:
    """Change a tensor; of an array, the tensor of its values."""

    def changed(good: Any) -> Any:
        if isinstance(good, np.ndarray):
            result = change(torch.from_numpy(good))
            dense = isinstance(result, Tensor) and result.layout == torch.strided
            known = dense and result.dtype != torch.bfloat16 and result.device.type == "cpu"
            return result.resolve_conj().detach().numpy() if known else result
        return change(good if isinstance(good, Tensor) else torch.tensor(1.0))

    return changed


def _with(value: float) -> Callable[[Tensor], Tensor]:
    def changed(t: Tensor) -> Tensor:
        t = t.to(torch.complex128 if t.is_complex() else torch.float64, copy=True)
        t = t.contiguous()
        t.view(-1)[:1] = value
        return t

    return changed


ODD: dict[str, Callable[[Any], Any]] = {
    "a tensor with NaN": _tensor(_with(math.nan)),
    "a tensor with infinity": _tensor(_with(math.inf)),
    "a tensor with a huge entry": _tensor(_with(1e300)),
    "a tensor of huge entries": _tensor(lambda t: t.double() * 1e300),
    "a tensor of subnormal entries": _tensor(lambda t: t.double() * 1e-310),
    "a tensor of zeros": _tensor(torch.zeros_like),
    "a tensor without rows": _tensor(lambda t: t[:0] if t.ndim else t),
    "a tensor without columns": _tensor(lambda t: t[..., :0] if t.ndim else t),
    "a tensor with one column": _tensor(lambda t: t[..., :1] if t.ndim else t),
    "a tensor with an axis less": _tensor(lambda t: t[0] if t.ndim and len(t) else t),
    "a tensor with an axis more": _tensor(lambda t: t[None]),
    "a tensor without axes": _tensor(lambda t: t.sum()),
    "a transposed tensor": _tensor(lambda t: t.mT if t.ndim > 1 else t),
    "a tensor with strides": _tensor(lambda t: torch.stack([t, t], -1)[..., 0]),
    "an expanded tensor": _tensor(lambda t: t[:1].expand(t.shape) if t.ndim else t),
    "float16": _tensor(lambda t: t.half()),
    "bfloat16": _tensor(lambda t: t.bfloat16()),
    "float32": _tensor(lambda t: t.float()),
    "integers": _tensor(lambda t: t.long()),
    "booleans": _tensor(lambda t: t > 0),
    "complex numbers": _tensor(lambda t: t.to(torch.complex64)),
    "a tensor on the device meta": _tensor(lambda t: t.to("meta")),
    "a sparse tensor": _tensor(lambda t: t.to_sparse()),
    "a tensor that requires a gradient": _tensor(
        lambda t: t.detach().clone().requires_grad_() if t.is_floating_point() else t
    ),
    "an array of numpy": lambda good: np.asarray(good) if not isinstance(good, dict) else good,
    "a list": lambda good: good.tolist() if hasattr(good, "tolist") else [good],
    "None": just(None),
    "a text": just("three"),
    "an empty text": just(""),
    "an object": lambda _: object(),
    "a dictionary": lambda _: {},
    "a class": just(int),
    "0": just(0),
    "-1": just(-1),
    "0.5": just(0.5),
    "1": just(1),
    "NaN": just(math.nan),
    "infinity": just(math.inf),
    "-infinity": just(-math.inf),
    "1e308": just(1e308),
    "the smallest float": just(5e-324),
    "True": just(True),
    "10**30": just(10**30),
    "-10**30": just(-(10**30)),
    "a complex number": just(1j),
    "a fraction": just(Fraction(3, 2)),
    "a number of numpy": just(np.float32(1.5)),
    "a 0-dim tensor": lambda _: torch.tensor(1.5),
    "a 0-dim tensor of NaN": lambda _: torch.tensor(math.nan),
    "a tensor of one number": lambda _: torch.tensor([1.5]),
}


def on_purpose(error: Exception) -> bool:
    """Return whether a line `raise …` of fwnet raised an error, or a library that checks for it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    parts = Path(frame.filename).parts
    checks = "sklearn" in parts or "os.PathLike" in str(error)  # of arrays, and of paths
    return checks or ("fwnet" in parts and (frame.line or "").startswith("raise "))


def refused(error: Exception, name: str) -> bool:
    """Return whether an error is one that a function may raise."""
    text = str(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in text:
        return True  # asked for more than there is
    if isinstance(error, ValueError | TypeError | IndexError) and on_purpose(error):
        return bool(text.strip())
    if isinstance(error, NotImplementedError) and "needs" in text:
        return True  # a projection that has no closed form
    if isinstance(error, NotImplementedError | RuntimeError) and "meta" in text.lower():
        return True  # a tensor without values, where values are needed
    # Layers of torch answer like this to an input that does not fit.
    return name in MODULES and isinstance(error, RuntimeError | NotImplementedError)


@target(
    "functions",
    st.tuples(
        st.sampled_from(sorted(FUNCTIONS)),
        st.lists(
            st.tuples(st.integers(0, 5), st.one_of(st.sampled_from(sorted(ODD)), odd_words)),
            min_size=1,
            max_size=2,
        ),
    ),
    kept=[
        ("minimize", [(2, "a fraction"), (5, "a tensor of subnormal entries")]),
        ("TrainingConfig", [(1, "complex numbers")]),
        ("KSupportBall.project", [(1, "a tensor with NaN")]),
        ("structured_codes", [(4, "a tensor of huge entries"), (3, "a tensor of huge entries")]),
        ("psnr", [(3, "a 0-dim tensor"), (2, "a 0-dim tensor")]),
        ("psnr", [(3, "a tensor of one number"), (2, "a tensor of one number")]),
        ("Simplex.project", [(5, "a tensor of huge entries")]),
        ("SchattenBall.contains", [(3, "a tensor with NaN")]),
        ("GroupLpBall.contains", [(0, "1")]),
        ("denoise", [(1, "a fraction")]),
        ("solve with weights", [(3, "complex numbers")]),
        ("omp", [(2, "a number of numpy")]),
        ("shrink", [(0, "a tensor without columns")]),
        ("Box.gauge", [(2, "a tensor without columns")]),
        ("load_model", [(0, "\0")]),
        ("SchattenBall.lmo", [(0, "1")]),
        ("SortedL1Ball.lmo", [(1, "a tensor of zeros")]),
        ("KSupportBall.project", [(0, "an array of numpy")]),
        ("Simplex.contains", [(0, "a fraction")]),
        ("Box.lmo", [(0, "a text")]),
        ("set_from_config", [(0, "1")]),
        ("FWNet", [(3, "-1")]),
        ("nn.FWCell", [(3, "a text")]),
        ("a noise level", [(1, "a text")]),
        ("solve with a method", [(2, "a text")]),
        ("solve_penalized", [(2, "a 0-dim tensor")]),
        ("minimize", [(1, "a sparse tensor")]),
        ("omp", [(2, "a text")]),
        ("soft_threshold", [(1, "True")]),
        ("soft_threshold", [(1, "a sparse tensor")]),
        ("enlarge", [(1, "an array of numpy")]),
        ("denoise", [(0, "a sparse tensor")]),
        ("noisy", [(1, "a fraction")]),
        ("shave", [(0, "a tensor without axes")]),
        ("ssim", [(0, "a tensor without columns"), (1, "a tensor without columns")]),
        ("ssim", [(1, "a tensor that requires a gradient")]),
        ("code_error", [(0, "a tensor without rows"), (1, "a tensor without rows")]),
        ("error_rate", [(0, "a tensor without columns")]),
        ("structured_codes", [(0, "float16")]),
        ("structured_codes", [(2, "")]),
        ("LpCoder", [(0, "a sparse tensor")]),
        ("load_model", [(1, "-10**30")]),
        ("pool_p", [(0, "a sparse tensor")]),
        ("Simplex.lmo", [(2, "any text"), (1, "complex numbers")]),
        ("LpBall.gauge", [(2, "a text")]),
        ("synthetic_codes", [(3, "infinity")]),
        ("structured_codes", [(0, "a tensor with NaN")]),
        ("learn_ball", [(1, "a tensor of subnormal entries")]),
        ("estimate_noise", [(0, "a tensor without columns")]),
        ("error_rate", [(0, "booleans")]),
        ("psnr", [(1, "an array of numpy")]),
        ("FWNetCoder", [(1, "10**30")]),
        ("FWNetCoder", [(4, "10**30")]),
        ("LpBall.gauge", [(1, "10**30")]),
        ("noisy", [(1, "10**30")]),
    ],
    examples=150,
    needs=["fwnet.coding", "fwnet.imaging", "fwnet.training"],
)
def functions(case: tuple) -> Tried:
    """One or two arguments of a function are odd."""
    name, changes = case
    function, good = FUNCTIONS[name]
    arguments = {key: make() for key, make in good.items()}
    kind = changes[0][1] if changes[0][1] in ODD else "any text"
    shown = f"argument: {kind}" if len(changes) == 1 else "two odd arguments"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for place, odd in changes:
                key = [*arguments][place % len(arguments)]
                arguments[key] = ODD[odd](arguments[key]) if odd in ODD else odd
        except Exception:
            return Tried("odd arguments that cannot be made of each other", "skipped")
        try:
            result = function(**arguments)
        except Exception as error:
            if refused(error, name):
                return Tried(shown, "refused")
            raise
    plain = all(_is_ordinary(value) for value in arguments.values())
    if plain and isinstance(result, Tensor) and result.is_floating_point():
        assert not result.isnan().any(), "NaN for finite input"
    return Tried(shown, "a result")


def _is_ordinary(value: Any) -> bool:
    """Return whether a value has nothing of which NaN could come."""
    if isinstance(value, Tensor):
        return value.ndim > 0 and (
            value.device.type == "cpu"
            and value.layout == torch.strided
            and (not value.is_floating_point() or bool((value.abs() < 1e30).all()))
        )
    return not isinstance(value, float) or abs(value) < 1e30
