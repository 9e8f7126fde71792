"""What only a GPU can show: dispatch, compilers, graphs and processes around the Triton kernels."""

import pytest
import torch
import torch.distributed
from torch import nn

import fwnet
from fwnet import kernels
from fwnet.functional import frank_wolfe_step

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
    # Warnings that torch or Triton raises in its own modules; those of fwnet remain errors.
    pytest.mark.filterwarnings(r"ignore:::(torch|triton)(\.|$)"),
]


def inputs(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True)


def gradients(unit, *tensors):
    output = unit(*tensors)
    torch.manual_seed(1)
    return output, *torch.autograd.grad(output, tensors, torch.randn_like(output))


def assert_same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_triton_is_chosen_and_others_fall_back():
    u = inputs(2, 8)
    assert kernels.select(u, 1) == "triton"
    assert kernels.select(u.double(), 1) == "reference"
    assert kernels.select(inputs(2, 5000), 1) == "reference"
    with kernels.use_reference():
        assert kernels.select(u, 1) == "reference"


@pytest.mark.parametrize("shape", [(3, 4096), (2, 4096, 5), (2, 5000), (1, 64, 321, 481)])
def test_long_rows_and_odd_images(shape):
    u, p = inputs(*shape), torch.tensor(1.3, device="cuda", requires_grad=True)
    unit = lambda u, p: fwnet.pool_p(u, p, dim=1, eps=1e-3)  # noqa: E731
    ours = gradients(unit, u, p)
    with kernels.use_reference():
        theirs = gradients(unit, u, p)
    torch.testing.assert_close(ours[:2], theirs[:2], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours[2], theirs[2], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("b_and_z", [True, False])
def test_opcheck(b_and_z):
    from fwnet.kernels import triton_ops

    u, b, z, grad = (inputs(4, 8, 6, 6).detach() for _ in range(4))
    scalars = [torch.tensor(v, device="cuda") for v in (0.3, 0.4, 1.0)]
    optional = (b, z, scalars[0]) if b_and_z else (None, None, None)
    torch.library.opcheck(triton_ops.forward, (u, *optional, *scalars[1:], 1e-3, 1))
    torch.library.opcheck(triton_ops.backward, (grad, u, *optional, *scalars[1:], 1e-3, 1))


def test_compile_traces_through_to_the_kernels():
    torch._dynamo.reset()
    u, p = inputs(4, 8, 6, 6), torch.tensor(1.3, device="cuda", requires_grad=True)
    unit = lambda u, p: (2 * fwnet.pool_p(u + 1, p, dim=1)).relu()  # noqa: E731
    compiled = torch.compile(unit, fullgraph=True)
    assert_same(gradients(compiled, u, p), gradients(unit, u, p))
    other = torch.tensor(1.7, device="cuda", requires_grad=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        assert_same(gradients(compiled, u, other), gradients(unit, u, other))


def test_vmap_falls_back():
    u, p = inputs(3, 4, 8).detach(), torch.tensor([1.2, 1.5, 3.0], device="cuda")
    batched = torch.func.vmap(fwnet.pool_p)(u, p)
    for row, exponent, s in zip(u, p, batched, strict=True):
        torch.testing.assert_close(s, fwnet.pool_p(row, exponent), rtol=1e-5, atol=1e-6)


def test_autocast_keeps_half_precision_in_and_out():
    u = inputs(4, 64, 8, 8)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        half = nn.functional.conv2d(u, torch.randn(64, 64, 1, 1, device="cuda"))
        s = fwnet.pool_p(half, 1.4, dim=1)
    assert s.dtype == torch.bfloat16
    torch.testing.assert_close(
        s.float(), fwnet.pool_p(half.float(), 1.4, dim=1), rtol=1e-2, atol=1e-3
    )


def test_backward_keeps_nothing_but_the_inputs():
    z, a, b = (inputs(64, 64, 32, 32) for _ in range(3))
    step, excess = (torch.tensor(v, device="cuda", requires_grad=True) for v in (0.3, 0.4))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    output = frank_wolfe_step(z, a, b, step, excess, dim=1)
    held = torch.cuda.memory_allocated() - before
    assert held <= output.numel() * output.element_size() + 2**16


def test_cuda_graph_replays_the_same_numbers():
    u, p = inputs(4, 8, 6, 6), torch.tensor(1.3, device="cuda", requires_grad=True)
    unit = lambda u, p: fwnet.pool_p(u, p, radius=2.0, dim=1)  # noqa: E731
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        gradients(unit, u, p)
    torch.cuda.synchronize()
    upstream = torch.randn_like(u)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = unit(u, p)
        grads = torch.autograd.grad(output, (u, p), upstream)
    with torch.no_grad():
        u.normal_()
        p.fill_(1.6)
    graph.replay()
    expected = unit(u, p)
    assert_same((output, *grads), (expected, *torch.autograd.grad(expected, (u, p), upstream)))


def test_distributed_data_parallel(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    try:
        layer = nn.Sequential(nn.Conv2d(1, 8, 3), fwnet.nn.PoolP(1.5, dim=1)).cuda()
        parallel = nn.parallel.DistributedDataParallel(layer)
        x = torch.randn(2, 1, 9, 9, device="cuda")
        parallel(x).square().sum().backward()
        by_parallel = layer[1].log_excess.grad.clone()
        layer.zero_grad()
        layer(x).square().sum().backward()
        torch.testing.assert_close(by_parallel, layer[1].log_excess.grad)
    finally:
        torch.distributed.destroy_process_group()
