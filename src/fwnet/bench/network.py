"""Training steps of the paper's convolutional network: T = 4, 64 maps, 128 images of 48 × 48."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from fwnet.bench.harness import Options, Report, compare
from fwnet.kernels import use_reference
from fwnet.models import ConvFWNet

BASELINE = "plain operators"
COMPILED = "plain operators, torch.compile"
STEPS = 10  # per measurement, so that Python runs ahead of the GPU as in training


class Sums(nn.Module):
    """Replaces the steps of the network by additions, to measure the convolutions alone."""

    def forward(self, w0_x: Tensor, matrices: Sequence[nn.Module]) -> Tensor:
        """Return W_{T−1}(… W_1(W_0 x) + W_0 x …) + W_0 x."""
        z = w0_x
        for matrix in matrices:
            z = matrix(z) + w0_x
        return z


def run(options: Options) -> Report:
    """Compare eager, compiled and fused steps, and steps without pool_p or the optimizer."""
    report = options.report("network", baseline=BASELINE)
    torch.backends.cudnn.benchmark = True  # for all candidates
    shape = (8, 1, 24, 24) if options.quick or options.device.type == "cpu" else (128, 1, 48, 48)
    generator = torch.Generator(options.device).manual_seed(0)
    clean = torch.rand(shape, generator=generator, device=options.device)
    noisy = clean + 0.1 * torch.randn(shape, generator=generator, device=options.device)
    step = partial(training_step, noisy, clean)
    candidates = {
        BASELINE: step(reference=True),
        COMPILED: step(reference=True, compiled=True),
        "fused step": step(),
        "fused step, channels last": step(channels_last=True),
        "fused step, torch.compile": step(compiled=True, channels_last=True),
        "convolutions alone": step(channels_last=True, without_unit=True),
        "fused step without optimizer": step(channels_last=True, without_optimizer=True),
    }
    if options.device.type == "cuda":
        candidates |= graph_candidates(noisy, clean)
    report.rows = compare(
        f"{STEPS} training steps, batch {[*shape]}",
        candidates,
        options,
        rounds=3 if options.quick else 20,
        hide_launches=False,
        may_fail={COMPILED},
    )
    report.notes = speedups({row.name: row.milliseconds for row in report.rows})
    return report


def speedups(times: dict[str, float]) -> dict[str, str | float]:
    """Return ratios of the same mode (eager, compiled, in TF32), the fastest, and parts of a step.

    The compiled pair differs in memory format: the fused one uses channels last.
    """
    whole, convolutions = times["fused step, channels last"], times["convolutions alone"]
    optimizer = whole - times["fused step without optimizer"]
    fastest = min((name for name in times if name.startswith("fused step,")), key=times.__getitem__)
    notes: dict[str, str | float] = {
        "eager: times as fast as plain operators": times[BASELINE] / times["fused step"],
        "fastest": fastest,
        "fastest: times as fast as plain operators": times[BASELINE] / times[fastest],
        "eager, channels last, milliseconds a step: all": whole / STEPS,
        "of these convolutions (with their optimizer)": convolutions / STEPS,
        "of these the unit": (whole - convolutions) / STEPS,
        "of these the optimizer": optimizer / STEPS,
    }
    if COMPILED in times:
        fused = times["fused step, torch.compile"]
        notes["compiled: times as fast as plain operators"] = times[COMPILED] / fused
        notes[f"fastest: times as fast as {COMPILED}"] = times[COMPILED] / times[fastest]
    return notes


def graph_candidates(noisy: Tensor, clean: Tensor) -> dict[str, Callable[[int], object]]:
    """Return the fused step as CUDA graphs: eager or compiled, in TF32 or bf16."""
    return {
        f"fused step, {how}, CUDA graph{suffix}": cuda_graph(
            training_step(noisy, clean, compiled=compiled, channels_last=True, bf16=bf16)
        )
        for how, compiled in (("channels last", False), ("torch.compile", True))
        for suffix, bf16 in (("", False), (", bf16", True))
    }


def training_step(
    noisy: Tensor,
    clean: Tensor,
    *,
    reference: bool = False,
    compiled: bool = False,
    channels_last: bool = False,
    bf16: bool = False,
    without_unit: bool = False,
    without_optimizer: bool = False,
) -> Callable[[int], object]:
    """Return a function that trains a new network for STEPS steps."""
    torch.manual_seed(0)
    network = ConvFWNet(4, eps=0.0).to(noisy.device)
    if without_unit:
        network.steps = Sums()  # type: ignore[assignment]
    if channels_last:
        for parameter in network.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(
        network.parameters(), lr=1e-3, fused=True, capturable=noisy.is_cuda
    )
    forward = torch.compile(network) if compiled else network

    def call(_: int) -> None:
        for _ in range(STEPS):
            train()

    def train() -> None:
        with torch.autocast(noisy.device.type, dtype=torch.bfloat16, enabled=bf16):
            output = forward(noisy)
        mse_loss(output.float(), clean).backward()
        if not without_optimizer:
            nn.utils.clip_grad_norm_(network.parameters(), 0.1)
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def plain(index: int) -> None:
        with use_reference():
            call(index)

    return plain if reference else call


def cuda_graph(step: Callable[[int], object]) -> Callable[[int], object]:
    """Record the training steps as a CUDA graph and return its replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for index in range(5):
            step(index)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(0)

    recorded = (graph, step)  # the graph uses the memory of the step: keep both
    return lambda _: recorded[0].replay()
