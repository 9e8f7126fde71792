import math

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, conv_transpose2d, pad

from fwnet.experiments import patches
from fwnet.experiments.patches import PatchDenoiser
from fwnet.models import LISTA, SRCNN, VDSR, ConvFWNet, ConvLISTA, DnCNN, FWNet
from fwnet.models.conv_coding_networks import gram_kernels, squared_norm
from tests.models.conformance import (
    CompileConformance,
    ConvCodingConformance,
    ConvolutionalConformance,
    ExportConformance,
    ImageConformance,
    LayeredConformance,
)

PATCHES = {"model": "FWNet", "num_features": 9, "num_atoms": 7, "num_layers": 3, "p": 1.6}
PATCHES["reconstruct"] = True


class TestConvFWNet(ConvCodingConformance):
    model = "ConvFWNet"


class TestConvFWNetToldItsNoiseLevel(CompileConformance, ConvCodingConformance):
    model = "ConvFWNet"
    options = {"num_layers": 3, "channels": 4, "noise_level_input": True, "in_channels": 3}


class TestConvFWNetWithoutResidual(ConvCodingConformance):
    """The authors' form, in small."""

    model = "ConvFWNet"
    options = {"num_layers": 3, "channels": 4, "residual": False, "eps": 0.0, "learn_p": False}


class TestConvFWNetWithEverythingElse(ConvCodingConformance):
    model = "ConvFWNet"
    options = {
        "num_layers": 2,
        "channels": 3,
        "kernel_size": 5,
        "p_per_layer": True,
        "share_weights": True,
        "radius": 2.0,
        "p": 1.8,
    }


class TestConvFWNetWithReLU(ConvCodingConformance):
    model = "ConvFWNet"
    options = {"num_layers": 3, "channels": 4, "activation": "relu", "skip": False}


class TestConvFWNetSubPixel(ExportConformance, ConvCodingConformance):
    model = "ConvFWNet"
    options = {"num_layers": 2, "channels": 4, "scale": 3}

    def test_enlargement_reaches_farther_than_small_kernels(self):
        network = self.make(kernel_size=1)
        assert network.receptive_radius == 2
        self.check_receptive_radius(network)


class TestConvFWNetSubPixelWithoutResidual(ConvCodingConformance):
    """… whose kernels reach less far than bicubic enlargement would."""

    model = "ConvFWNet"
    options = {
        "num_layers": 2,
        "channels": 4,
        "kernel_size": 1,
        "in_channels": 3,
        "noise_level_input": True,
        "residual": False,
        "scale": 2,
    }


class TestConvFWNetAtHalfResolution(CompileConformance, ExportConformance, ConvCodingConformance):
    """As on the shelf, in small."""

    model = "ConvFWNet"
    options = {
        "num_layers": 2,
        "channels": 4,
        "in_channels": 3,
        "noise_level_input": True,
        "reduction": 2,
        "learn_radius": True,
        "radius": 2.0,
    }
    # An image that is one square has a graph of its own.
    dynamic_axes = {0: ("batch", 2), 2: ("height", 3), 3: ("width", 3)}


class TestConvFWNetAtAThirdThatDoubles(ConvCodingConformance):
    """Reduction and scale at once."""

    model = "ConvFWNet"
    options = {"num_layers": 2, "channels": 4, "reduction": 3, "scale": 2}


class TestConvLISTA(ExportConformance, ConvCodingConformance):
    model = "ConvLISTA"


class TestConvLISTASubPixel(ConvCodingConformance):
    model = "ConvLISTA"
    options = {"num_layers": 2, "channels": 4, "scale": 2}


class TestConvLISTAAtHalfResolution(ConvCodingConformance):
    model = "ConvLISTA"
    options = {"num_layers": 2, "channels": 4, "reduction": 2}


class TestDnCNNAtHalfResolution(LayeredConformance):
    model = "DnCNN"
    options = {"num_layers": 3, "channels": 4, "reduction": 2}


class TestDnCNN(ExportConformance, LayeredConformance):
    model = "DnCNN"


class TestDnCNNWithoutBatchNorm(LayeredConformance):
    model = "DnCNN"
    options = {"num_layers": 4, "channels": 4, "batch_norm": False}


class TestVDSR(ExportConformance, LayeredConformance):
    model = "VDSR"


class TestSRCNN(ExportConformance, ConvolutionalConformance):
    model = "SRCNN"
    options = {"kernel_sizes": (9, 1, 5), "channels": (5, 4)}


class TestPatchDenoiser(ExportConformance, ImageConformance):
    model = "PatchDenoiser"
    options = {"coder": PATCHES, "patch_size": 3}
    smallest = 3
    # An image that is one patch has a graph of its own.
    dynamic_axes = {0: ("batch", 2), 2: ("height", 4), 3: ("width", 4)}

    def places(self, height, width):
        return (height - 2) * (width - 2)


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def images(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, dtype=torch.float64, generator=generator)


# ConvFWNet


def test_conv_fwnet_has_the_authors_form():
    """Their network, written down plainly, and ours with the same numbers in a state dict.

    The weights map one to one: their first convolution is `first`, the fifteen between feature
    maps are `others.0` … `others.14`, the one that makes the image is `last`. Their step sizes
    are sigmoids of what `steps.step_sizes.logits` holds, one a layer, and their p, which is not
    learned, is 1 + `steps.exponents.0.fixed_excess`.
    """
    layers, maps, p = 16, 8, 1.5
    first, last = normal(maps, 1, 3, 3, seed=1) / 3, normal(1, maps, 3, 3, seed=2) / 24
    others = [normal(maps, maps, 3, 3, seed=3 + t) / 24 for t in range(layers - 1)]
    logits = normal(layers, seed=50)
    x = images(2, 1, 10, 9)

    w0_x = conv2d(pad(x, (1, 1, 1, 1)), first)
    z = torch.zeros_like(w0_x)
    for t in range(layers):
        u = w0_x if t == 0 else conv2d(pad(z, (1, 1, 1, 1)), others[t - 1]) + w0_x
        q = p / (p - 1)
        norm = (u.abs() ** q).sum(1, keepdim=True) ** (1 / q)
        s = -u.sign() * (u.abs() / norm) ** (q - 1)
        gamma = 1 / (1 + math.exp(-logits[t]))
        z = (1 - gamma) * z + gamma * s
    y = conv2d(pad(z, (1, 1, 1, 1)), last)

    network = ConvFWNet(layers, maps, p=p, learn_p=False, residual=False, eps=0.0).double()
    state = {
        "first.weight": first,
        **{f"others.{t}.weight": kernel for t, kernel in enumerate(others)},
        "last.weight": last,
        "steps.step_sizes.logits": logits,
        "steps.exponents.0.fixed_excess": torch.tensor(p - 1, dtype=torch.float64),
    }
    network.load_state_dict(state, strict=True)
    torch.testing.assert_close(network(x), y, rtol=1e-9, atol=1e-11)


def test_conv_fwnet_4_costs_what_dncnn_5_does():
    assert ConvFWNet(4).multiply_adds == DnCNN(5).multiply_adds == 111_744
    assert ConvFWNet(4).receptive_radius == DnCNN(5).receptive_radius == 5
    assert ConvFWNet(4).num_parameters == 111_744 + 4 + 1  # and the step sizes and p
    assert ConvFWNet(16, share_weights=True).num_parameters == 2 * 576 + 36_864 + 16 + 1


@pytest.mark.parametrize("share", [False, True])
def test_of_1_by_1_kernels_it_is_the_dense_network_at_every_pixel(share):
    dictionary, x = normal(3, 8), images(2, 3, 5, 4)
    shared = {"radius": 2.0, "p": 1.4, "eps": 0.0, "share_weights": share}
    conv = ConvFWNet.from_dictionary(
        dictionary, 5, kernel_size=1, in_channels=3, residual=False, **shared
    )
    dense = FWNet.from_dictionary(dictionary, 5, reconstruct=True, **shared)
    pixels = x.movedim(1, -1)
    torch.testing.assert_close(conv(x).movedim(1, -1), dense(pixels))
    torch.testing.assert_close(conv.encode(x).movedim(1, -1), dense.encode(pixels))


def test_conv_lista_of_1_by_1_kernels_is_lista_at_every_pixel():
    dictionary, x = normal(3, 8), images(2, 3, 5, 4)
    conv = ConvLISTA.from_dictionary(
        dictionary, 5, kernel_size=1, in_channels=3, residual=False, threshold=0.03
    )
    dense = LISTA.from_dictionary(dictionary, 5, reconstruct=True, threshold=0.03)
    pixels = x.movedim(1, -1)
    # Not to the last digits: one looks for ‖D‖² among frequencies, the other is told.
    torch.testing.assert_close(conv(x).movedim(1, -1), dense(pixels))
    torch.testing.assert_close(conv.encode(x).movedim(1, -1), dense.encode(pixels))


def test_codes_of_a_layer_lie_in_the_ball_at_every_place():
    network = ConvFWNet(3, 6, p=1.6, radius=2.5).double()
    codes = network.encode(images(2, 1, 7, 6))
    assert ((codes.abs() ** 1.6).sum(1) ** (1 / 1.6)).max() <= 2.5


def test_without_skip_the_image_enters_once():
    network = ConvFWNet(2, 6, p=1.5, eps=0.0, skip=False, residual=False).double()
    x = images(2, 1, 7, 6)

    def pool(u):
        return -u.sign() * u.square() / (u.abs() ** 3).sum(1, keepdim=True) ** (2 / 3)

    first, second = network.step_sizes
    z = first * pool(network.first(x))
    z = (1 - second) * z + second * pool(network.others[0](z))
    torch.testing.assert_close(network(x), network.last(z))


def test_watched_are_p_and_step_sizes():
    watched = ConvFWNet(3, 4, p=1.7).watched()
    assert watched["p"] == pytest.approx(1.7)
    assert watched["gamma"] == pytest.approx([1, 2 / 3, 1 / 2], abs=3e-3)
    assert "p" not in ConvFWNet(3, 4, activation="relu").watched()
    assert ConvLISTA(3, 4, threshold=0.02).watched()["threshold"] == pytest.approx([0.02] * 3)


def test_p_of_1_needs_eps_of_0():
    with pytest.raises(ValueError, match=r"eps must be 0 at p = 1, .* got eps = 0\.001"):
        ConvFWNet(2, 8, p=1.0, learn_p=False)
    codes = ConvFWNet(2, 8, p=1.0, learn_p=False, eps=0.0).encode(torch.rand(1, 1, 8, 8))
    assert (codes != 0).any()


def test_rounding_noise_in_black_areas_stays_small():
    """pool_p is homogeneous of degree 0: without eps it gives noise of any size the full radius."""
    black, noise = torch.zeros(1, 1, 16, 16), 1e-7 * normal(1, 1, 16, 16).float()
    options = {"num_layers": 4, "channels": 16, "residual": False}

    def change(**more):
        network = ConvFWNet(**options, **more, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            return (network(black + noise) - network(black)).abs().max()

    assert change() < 1e-4
    assert change(eps=0.0) > 1e-2


# Dictionaries as kernels


@pytest.mark.parametrize("size", [1, 3, 5])
def test_gram_kernels_are_the_middle_of_the_gram_convolution(size):
    """What DᵀD does to a delta, where D z is a transposed convolution and Dᵀx a plain one."""
    maps, half = 4, size // 2
    atoms = normal(maps, 2, size, size)
    kernels = gram_kernels(atoms)
    assert kernels.shape == (maps, maps, size, size)
    middle = 10
    for j in range(maps):
        delta = torch.zeros(1, maps, 21, 21, dtype=torch.float64)
        delta[0, j, middle, middle] = 1
        true = conv2d(conv_transpose2d(delta, atoms, padding=half), atoms, padding=half)
        ours = conv2d(delta, kernels, padding=half)
        near = slice(middle - half, middle + half + 1)
        torch.testing.assert_close(ours[..., near, near], true[..., near, near])


@pytest.mark.parametrize("size", [1, 3])
def test_squared_norm_is_that_of_the_convolution(size):
    atoms, half = normal(6, 2, size, size), size // 2
    z = normal(1, 6, 24, 24, seed=1)
    estimate = torch.zeros(())
    for _ in range(300):  # the power iteration for DᵀD on an image with zeros around it
        z = z / z.norm()
        image = conv_transpose2d(z, atoms, padding=half)
        estimate = image.square().sum()
        z = conv2d(image, atoms, padding=half)
    norm = squared_norm(atoms)
    assert norm >= 0.9999 * estimate
    assert norm <= 1.1 * estimate


def test_from_a_dictionary_the_first_layer_correlates_and_the_last_rebuilds():
    dictionary = normal(2 * 9, 5)
    network = ConvFWNet.from_dictionary(dictionary, 3, in_channels=2, residual=False)
    assert network.first.weight.dtype == torch.float64
    patch = images(1, 2, 3, 3)
    inner = network.first(patch)[0, :, 1, 1]
    torch.testing.assert_close(inner, -dictionary.T @ patch.flatten())
    code = torch.zeros(1, 5, 3, 3, dtype=torch.float64)
    code[0, :, 1, 1] = normal(5, seed=2)
    torch.testing.assert_close(network.last(code).flatten(), dictionary @ code[0, :, 1, 1])


def inner_atoms(maps, channels):
    """Atoms on 2 × 2 of 3 × 3 pixels, whose DᵀD fits into 3 × 3, and an image with a wide rim."""
    dictionary = torch.zeros(channels, 3, 3, maps, dtype=torch.float64)
    dictionary[:, 1:, :2] = normal(channels, 2, 2, maps)
    x = pad(images(2, channels, 4, 4), (8, 8, 8, 8))
    return dictionary.flatten(0, 2), x


def test_untrained_conv_fwnet_is_the_frank_wolfe_algorithm_at_all_places_at_once():
    dictionary, x = inner_atoms(6, 2)
    network = ConvFWNet.from_dictionary(
        dictionary, 5, in_channels=2, residual=False, eps=0.0, p=1.5, learn_step_sizes=False
    )
    atoms = dictionary.T.reshape(6, 2, 3, 3)
    z = torch.zeros(2, 6, 20, 20, dtype=torch.float64)
    for t in range(5):
        u = conv2d(conv_transpose2d(z, atoms, padding=1) - x, atoms, padding=1)
        norm = (u.abs() ** 3).sum(1, keepdim=True) ** (1 / 3)
        s = -u.sign() * (u.abs() / norm.clamp(min=1e-300)) ** 2
        z = z + 2 / (t + 2) * (s - z)
    torch.testing.assert_close(network.encode(x), z)
    torch.testing.assert_close(network(x), conv_transpose2d(z, atoms, padding=1))


def test_untrained_conv_lista_is_ista_on_the_whole_image():
    dictionary, x = inner_atoms(6, 2)
    network = ConvLISTA.from_dictionary(
        dictionary, 5, in_channels=2, residual=False, threshold=0.02
    )
    atoms = dictionary.T.reshape(6, 2, 3, 3)
    z = torch.zeros(2, 6, 20, 20, dtype=torch.float64)
    for _ in range(5):
        slope = conv2d(conv_transpose2d(z, atoms, padding=1) - x, atoms, padding=1)
        u = z - slope / squared_norm(atoms)
        z = u.sign() * (u.abs() - 0.02).clamp(min=0)
    torch.testing.assert_close(network.encode(x), z)
    torch.testing.assert_close(network(x), conv_transpose2d(z, atoms, padding=1))


def test_the_residual_form_keeps_the_last_kernel_it_has_drawn():
    dictionary = normal(9, 5)
    drawn, same = (
        ConvFWNet.from_dictionary(dictionary, 3, generator=torch.Generator().manual_seed(0))
        for _ in range(2)
    )
    assert torch.equal(drawn.last.weight, same.last.weight)
    atoms = dictionary.T.reshape(5, 1, 3, 3)
    assert not torch.equal(drawn.last.weight, atoms.transpose(0, 1).flip(2, 3))


# DnCNN


def test_dncnn_has_the_published_number_of_parameters():
    network = DnCNN(17)
    assert network.num_parameters == 556_032
    assert network.receptive_radius == 17
    assert DnCNN(17, batch_norm=False).num_parameters == 556_032 - 15 * 128 + 16 * 64


def test_dncnn_written_out():
    network = DnCNN(3, 4).double().eval()
    network.norms[0].running_mean.copy_(normal(4))
    network.norms[0].running_var.copy_(images(4) + 0.5)
    x = images(2, 1, 6, 5)
    a = conv2d(x, network.hidden[0].weight, padding=1).clamp(min=0)
    a = conv2d(a, network.hidden[1].weight, padding=1)
    mean, variance = (
        s.reshape(-1, 1, 1) for s in (network.norms[0].running_mean, network.norms[0].running_var)
    )
    a = ((a - mean) / (variance + 1e-5).sqrt()).clamp(min=0)
    torch.testing.assert_close(network(x), x + conv2d(a, network.last.weight, padding=1))


def test_dncnn_needs_two_layers():
    with pytest.raises(ValueError, match="num_layers must be an integer >= 2, got 1"):
        DnCNN(1)


# Super-resolution


def test_vdsr_has_the_published_number_of_weights():
    network = VDSR()
    assert sum(weight.numel() for weight in network.parameters() if weight.ndim == 4) == 664_704
    assert network.num_parameters == 664_704 + 19 * 64  # biases: of all layers but the last
    assert network.multiply_adds == 664_704
    assert network.receptive_radius == 20  # 41 × 41 pixels
    assert VDSR(batch_norm=True).num_parameters == 664_704 + 18 * 128


def test_vdsr_written_out():
    network = VDSR(3, 4).double()
    with torch.no_grad():
        for layer in network.hidden:
            layer.bias.copy_(normal(4))
    x = images(2, 1, 6, 5)
    a = x
    for layer in network.hidden:
        a = conv2d(a, layer.weight, layer.bias, padding=1).clamp(min=0)
    torch.testing.assert_close(network(x), x + conv2d(a, network.last.weight, padding=1))


def test_vdsr_is_dncnn_without_norms_by_default():
    dncnn, vdsr = (
        kind(3, 4, **options, generator=torch.Generator().manual_seed(0))
        for kind, options in ((DnCNN, {"batch_norm": False}), (VDSR, {}))
    )
    for name, weight in dncnn.state_dict().items():
        assert torch.equal(vdsr.get_parameter(name), weight)
    assert not vdsr.norms


@pytest.mark.parametrize(
    ("sizes", "count", "radius"),
    [((9, 1, 5), 8129, 6), ((9, 3, 5), 24_513, 7), ((9, 5, 5), 57_281, 8)],
)
def test_srcnn_has_the_published_number_of_parameters(sizes, count, radius):
    network = SRCNN(sizes)
    assert network.num_parameters == count
    assert network.multiply_adds == count - 64 - 32 - 1  # without biases, 8,032 as published
    assert network.receptive_radius == radius


def test_srcnn_written_out():
    network = SRCNN((5, 1, 3), (4, 3)).double()
    with torch.no_grad():
        for layer in network.layers:
            layer.bias.copy_(normal(len(layer.bias)))
    x = images(2, 1, 6, 7)
    first, second, last = network.layers
    a = conv2d(x, first.weight, first.bias, padding=2).clamp(min=0)
    a = conv2d(a, second.weight, second.bias).clamp(min=0)
    torch.testing.assert_close(network(x), conv2d(a, last.weight, last.bias, padding=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"channels": (64,)}, "kernel_sizes must have one more entry than channels, got 3 and 1"),
        (
            {"kernel_sizes": (9, 5)},
            "kernel_sizes must have one more entry than channels, got 2 and",
        ),
        ({"kernel_sizes": (9, 2, 5)}, "kernel_size must be an odd integer >= 1, got 2"),
        ({"channels": (64, 0)}, "channels must be an integer >= 1, got 0"),
        ({"in_channels": 0}, "in_channels must be an integer >= 1, got 0"),
    ],
)
def test_bad_srcnns(arguments, message):
    with pytest.raises(ValueError, match=message):
        SRCNN(**arguments)


@pytest.mark.parametrize("shape", [(9, 8), (8, 7), (7, 11), (1, 1)])
def test_squares_at_the_border_are_filled_up_by_the_last_row_and_column(shape):
    network = ConvFWNet(2, 4, reduction=2).double()
    x = images(2, 1, *shape)
    height, width = shape
    filled = pad(x, (0, width % 2, 0, height % 2), mode="replicate")
    torch.testing.assert_close(network(x), network(filled)[..., :height, :width])


def test_a_sub_pixel_network_takes_a_ninth_of_the_multiplications():
    """… but for its first and last kernels."""
    seen_large, seen_small = ConvFWNet(19), ConvFWNet(19, scale=3)
    assert seen_large.multiply_adds == VDSR().multiply_adds
    assert seen_small.multiply_adds == (18 * 36_864 + (1 + 9) * 576) / 9
    assert seen_small.receptive_radius == seen_large.receptive_radius == 20


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_networks_of_every_resolution_in_onnx(tmp_path):
    import onnxruntime

    network = ConvFWNet(2, 4, scale=2, reduction=3).eval()
    path = tmp_path / "m.onnx"
    axes = {
        axis: torch.export.Dim(name, min=2 if axis == 0 else 4, max=1000)
        for axis, name in ((0, "batch"), (2, "height"), (3, "width"))
    }
    x = images(2, 1, 5, 4).float()
    torch.onnx.export(network, (x,), path, dynamo=True, dynamic_shapes=(axes,), verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in ((3, 1, 8, 7), (2, 1, 4, 9)):
        more = images(*shape, seed=1).float()
        (y,) = session.run(None, {session.get_inputs()[0].name: more.numpy()})
        np.testing.assert_allclose(y, network(more).detach().numpy(), rtol=1e-4, atol=1e-5)


# Patches


def coder(size=4, **changes):
    options = {"num_atoms": 9, "num_layers": 3, "p": 1.5, "reconstruct": True, **changes}
    return FWNet(size**2, generator=torch.Generator().manual_seed(0), **options).double()


def test_patches_are_averaged_as_a_double_loop_does_it():
    size, network = 4, coder()
    model = PatchDenoiser.on(network, patch_size=4)
    x = images(2, 1, 7, 9)
    place = np.arange(size) - 1.5
    profile = np.exp(-0.5 * (place / (0.25 * size)) ** 2)
    weights = torch.from_numpy(np.outer(profile, profile))
    total, norm = torch.zeros_like(x), torch.zeros_like(x)
    for top in range(7 - size + 1):
        for left in range(9 - size + 1):
            here = (slice(None), 0, slice(top, top + size), slice(left, left + size))
            patches = x[here].flatten(1)
            means = patches.mean(1, keepdim=True)
            rebuilt = means + network(patches - means)
            total[here] += weights * rebuilt.reshape(2, size, size)
            norm[here] += weights
    # The window is made in float32.
    torch.testing.assert_close(model(x), total / norm, rtol=1e-6, atol=1e-7)


def test_an_image_of_the_size_of_a_patch_is_one_patch():
    network = coder()
    model = PatchDenoiser.on(network, patch_size=4)
    patches = images(3, 1, 4, 4).flatten(1)
    means = patches.mean(1, keepdim=True)
    x = patches.reshape(3, 1, 4, 4)
    torch.testing.assert_close(model(x).flatten(1), means + network(patches - means))


def test_chunks_of_patches_change_nothing(monkeypatch):
    model = PatchDenoiser.on(coder(), patch_size=4)
    x = images(2, 1, 9, 8)
    whole = model(x)
    for chunk in (1, 7, 30, 60, 61):
        monkeypatch.setitem(patches.CHUNK_PATCHES, "cpu", chunk)
        torch.testing.assert_close(model(x), whole)


def test_a_constant_image_stays_as_it_is():
    """Its patches are all mean; the network sees zeros, and their code is zero."""
    model = PatchDenoiser.on(coder(eps=1e-3), patch_size=4)
    for level in (0.0, 0.3, 1.0):
        x = torch.full((1, 1, 9, 8), level, dtype=torch.float64)
        torch.testing.assert_close(model(x), x)


def test_patches_of_the_coder_given_by_name_and_by_network_are_the_same():
    network = coder()
    model = PatchDenoiser.on(network, patch_size=4)
    assert model.config["coder"] == {"model": "FWNet", **network.config}
    with torch.no_grad():
        network.first.weight.zero_()
    assert model.coder.first.weight.abs().sum() > 0
    assert model.watched()["p"] == pytest.approx(1.5)


def test_what_an_update_of_lcod_costs():
    about = {"model": "LCoD", "num_features": 16, "num_atoms": 9, "num_layers": 5}
    model = PatchDenoiser({**about, "reconstruct": True}, 4)
    assert model.multiply_adds == 2 * 16 * 9 + 4 * 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coder": "FWNet"}, "coder must be a mapping with a model, got 'FWNet'"),
        ({"coder": {**PATCHES, "model": "Nothing"}}, "model must be one of .*, got 'Nothing'"),
        ({"coder": {**PATCHES, "reconstruct": False}}, "coder must rebuild signals"),
        ({"patch_size": 4}, "num_features of coder must be 16, the pixels of a patch, got 9"),
        ({"patch_size": 0}, "patch_size must be an integer >= 1, got 0"),
    ],
)
def test_bad_patch_denoisers(arguments, message):
    with pytest.raises(ValueError, match=message):
        PatchDenoiser(**{"coder": PATCHES, "patch_size": 3, **arguments})


@pytest.mark.parametrize("shape", [(1, 1, 2, 9), (1, 1, 9, 2)])
def test_an_image_smaller_than_a_patch_is_refused(shape):
    with pytest.raises(ValueError, match=f"at least 3 × 3 pixels, got {shape[2]} × {shape[3]}"):
        PatchDenoiser(PATCHES, 3)(torch.zeros(shape))
