"""Tests for every model, and for every kind of model; the test class of a model inherits them."""

import copy
import itertools
import json
import math

import pytest
import torch
from safetensors import safe_open
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from fwnet.models import MODELS, load_model
from fwnet.resize import REACH, enlarge

FEATURES, ATOMS, LAYERS = 6, 9, 4


def generator(seed):
    return torch.Generator().manual_seed(seed)


class ModelConformance:
    """Subclasses name the `model`, say how to `make` it and what it is given."""

    model = ""
    dynamic_axes = {0: ("batch", 2)}  # and the least length that a graph serves

    def make(self, seed=0, **changes):
        """A small network, in evaluation mode."""
        raise NotImplementedError

    def inputs(self, count, seed=1):
        """A batch."""
        raise NotImplementedError

    def arguments(self, x):
        """All that forward takes."""
        return (x,)

    @pytest.fixture
    def x(self):
        return self.inputs(5)

    def test_is_in_the_registry_under_its_name(self):
        assert MODELS[self.model].__name__ == self.model

    def test_rows_do_not_depend_on_each_other(self, x):
        network = self.make()
        alone = network(*self.arguments(x[2:3]))
        torch.testing.assert_close(network(*self.arguments(x))[2:3], alone)

    def test_every_parameter_gets_a_gradient(self, x):
        check_gradients(self.make(), self.arguments(x))

    def test_autocast_computes_about_the_same(self, x):
        network = self.make()
        expected = network(*self.arguments(x))
        with torch.autocast("cpu", torch.bfloat16):
            found = network(*self.arguments(x))
        distance = (found.to(expected) - expected).norm() / expected.norm().clamp(min=1e-3)
        assert distance < 0.1

    def test_gradients_agree_with_differences(self):
        network = self.make().double()
        x = self.inputs(2, seed=3).double().requires_grad_()
        names, weights = zip(*network.named_parameters(), strict=True)

        def outputs(x, *values):
            named = dict(zip(names, values, strict=True))
            return functional_call(network, named, self.arguments(x))

        assert torch.autograd.gradcheck(outputs, (x, *weights), fast_mode=True)

    def test_state_dict_survives_a_file(self, x, tmp_path):
        network = self.make()
        network.save(tmp_path / "m.safetensors", notes={"data": "none"})
        loaded = load_model(tmp_path / "m.safetensors")
        assert type(loaded) is type(network)
        assert loaded.config == network.config
        assert not loaded.training
        assert torch.equal(loaded(*self.arguments(x)), network(*self.arguments(x)))
        with safe_open(tmp_path / "m.safetensors", framework="pt") as file:
            about = json.loads(file.metadata()["fwnet"])
        assert about["notes"] == {"data": "none"}
        assert about["config"] == network.config

    def test_float64_survives_a_file(self, x, tmp_path):
        network = self.make().double()
        network.save(tmp_path / "m.safetensors")
        loaded = load_model(tmp_path / "m.safetensors")
        wide = self.arguments(x.double())
        assert torch.equal(loaded(*wide), network(*wide))

    def test_initial_weights_come_from_the_generator(self, x):
        first, again, other = (self.make(seed)(*self.arguments(x)) for seed in (0, 0, 1))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_a_copy_is_a_model_of_its_own(self, x):
        network = self.make()
        other = copy.deepcopy(network)
        assert other.config == network.config
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(0.5)
        assert not torch.equal(other(*self.arguments(x)), network(*self.arguments(x)))

    def test_repr_names_the_model(self):
        assert repr(self.make()).startswith(f"{self.model}(")

    def test_watched_numbers_can_be_written_as_json(self):
        json.dumps(self.make().watched(), allow_nan=False)


class ExportConformance:
    """Export tests, for one form of every model, since tracing takes seconds."""

    def test_exports_with_a_dynamic_batch(self, x):
        network = self.make()
        axes = {
            axis: torch.export.Dim(name, min=least, max=1000)
            for axis, (name, least) in self.dynamic_axes.items()
        }
        given = self.arguments(x)
        shapes = (axes, *[None] * (len(given) - 1))
        program = torch.export.export(network, given, dynamic_shapes=shapes).module()
        more = torch.cat([x, x, x[:1]])
        for axis in set(axes) - {0}:
            more = torch.cat([more, more.flip(axis)], axis)
        torch.testing.assert_close(
            program(*self.arguments(more)), network(*self.arguments(more)), rtol=1e-4, atol=1e-5
        )


class CompileConformance:
    """Compile tests, for models with their own autograd functions."""

    def test_compiles_into_one_graph(self, x):
        network = self.make()
        compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(*self.arguments(x)), network(*self.arguments(x)))
        torch._dynamo.reset()


def check_gradients(network, arguments):
    network(*arguments).square().sum().backward()
    learned = {name: w for name, w in network.named_parameters() if w.requires_grad}
    assert learned
    for name, parameter in learned.items():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


class SignalConformance(ModelConformance):
    """Subclasses say how many `outputs` a signal has."""

    outputs = ATOMS

    def inputs(self, count, seed=1):
        return torch.randn(count, FEATURES, generator=generator(seed))

    def test_shapes(self, x):
        network = self.make()
        assert network(x).shape == (5, self.outputs)
        assert network(x[0]).shape == (self.outputs,)
        assert network(x.reshape(1, 5, FEATURES)).shape == (1, 5, self.outputs)
        assert network(x[:0]).shape == (0, self.outputs)
        assert network.encode(x).shape == (5, ATOMS)

    def test_a_signal_of_another_length_is_refused(self, x):
        with pytest.raises(ValueError, match=r"n = 6, got \(5, 5\)"):
            self.make()(x[:, :-1])


class CodingConformance(SignalConformance):
    """Subclasses name the `options` to test a coding network with, too."""

    options: dict = {}

    def make(self, seed=0, **changes):
        options = {**self.options, **changes}
        network = MODELS[self.model](FEATURES, ATOMS, LAYERS, generator=generator(seed), **options)
        return network.eval()

    def test_a_last_layer_rebuilds_signals(self, x):
        network = self.make(reconstruct=True)
        assert network(x).shape == x.shape
        assert network.encode(x).shape == (5, ATOMS)

    def test_every_parameter_of_a_rebuilding_network_gets_a_gradient(self, x):
        check_gradients(self.make(reconstruct=True), (x,))

    def test_depth_widths_and_sharing_are_those_of_every_model(self):
        separate, shared = self.make(share_weights=False), self.make(share_weights=True)
        if separate.coupled:
            for network in (separate, shared):
                shapes = [w.shape for w in network.parameters() if w.ndim == 2]
                assert shapes == [(ATOMS, FEATURES), (FEATURES, ATOMS)]
            return
        assert [w.shape for w in separate.parameters() if w.ndim == 2] == [
            (ATOMS, FEATURES),
            *[(ATOMS, ATOMS)] * (LAYERS - 1),
        ]
        assert [w.shape for w in shared.parameters() if w.ndim == 2] == [
            (ATOMS, FEATURES),
            (ATOMS, ATOMS),
        ]

    def test_input_scale_changes_the_unit_of_signals_alone(self, x):
        network, scaled = self.make(), self.make(input_scale=0.01)
        torch.testing.assert_close(scaled(100 * x), network(x))
        rebuilding = self.make(input_scale=0.01, reconstruct=True)
        torch.testing.assert_close(
            rebuilding(100 * x), 100 * self.make(reconstruct=True)(x), rtol=1e-4, atol=1e-4
        )

    @pytest.mark.parametrize("name", ["num_features", "num_atoms", "num_layers"])
    def test_bad_sizes_are_refused(self, name):
        for value in (0, 2.0):
            sizes = {"num_features": 6, "num_atoms": 9, "num_layers": 4, name: value}
            with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got {value}"):
                MODELS[self.model](**sizes)


class ImageConformance(ModelConformance):
    """Subclasses name the `options`, the `smallest` side of an image, and where there are `places`.

    A place is where the network meets its weights once: every pixel of y, or every patch. With a
    `scale` among the options y is so many times as high and wide as x, and with a `reduction` a
    place is a square of pixels.
    """

    options: dict = {}
    smallest = 1
    dynamic_axes = {0: ("batch", 2), 2: ("height", 2), 3: ("width", 2)}

    def make(self, seed=0, **changes):
        network = MODELS[self.model](**{**self.options, **changes}, generator=generator(seed))
        network.train()  # statistics for those that have such
        network(*self.arguments(self.images(4, network.in_channels, 9, 9, seed=9), network))
        return network.eval()

    def images(self, count, channels, height, width, seed=1):
        return torch.rand(count, channels, height, width, generator=generator(seed))

    def inputs(self, count, seed=1):
        return self.images(count, self.options.get("in_channels", 1), 5, 4, seed)

    def arguments(self, x, network=None):
        told = self.options.get("noise_level_input", False)
        told = told if network is None else network.noise_level_input
        return (x, torch.tensor(0.1)) if told else (x,)

    @property
    def scale(self):
        return self.options.get("scale", 1)

    @property
    def reduction(self):
        return self.options.get("reduction", 1)

    def shape(self, x):
        """That of y."""
        batch, channels, height, width = x.shape
        return batch, channels, self.scale * height, self.scale * width

    def places(self, height, width):
        height, width = (-(-side // self.reduction) * self.reduction for side in (height, width))
        return self.scale**2 * height * width

    def test_shapes(self):
        network = self.make()
        assert network.scale == self.scale
        side = self.smallest
        for height, width in ((side, side), (side, 13), (13, side), (side + 1, 6)):
            for count in (0, 3):
                x = self.images(count, network.in_channels, height, width)
                assert network(*self.arguments(x)).shape == self.shape(x)

    def test_what_is_no_batch_of_such_images_is_refused(self, x):
        network = self.make()
        channels = network.in_channels
        expected = rf"x must have shape \(batch, {channels}, height, width\), got "
        for wrong in (x[0], x[:, :0], torch.cat([x, x], 1), x[None]):
            with pytest.raises(ValueError, match=expected + rf"\({str(tuple(wrong.shape))[1:-1]}"):
                network(*self.arguments(wrong))

    def test_memory_may_be_in_any_order(self, x):
        network = self.make()
        y = network(*self.arguments(x))
        for other in (
            x.to(memory_format=torch.channels_last),
            x.transpose(2, 3).contiguous().transpose(2, 3),
        ):
            torch.testing.assert_close(network(*self.arguments(other)), y)

    def test_pixels_matter_up_to_the_receptive_radius_and_not_beyond(self):
        self.check_receptive_radius(self.make())

    def check_receptive_radius(self, network):
        network.double()
        radius = network.receptive_radius
        middle = (radius + 2) // self.reduction * self.reduction + self.reduction
        side = 2 * middle + 1
        x = self.images(1, network.in_channels, side, side).double()
        noise = self.images(1, network.in_channels, side, side, seed=2).double()

        def pixel(x, place):
            made = slice(self.scale * place, self.scale * (place + 1))
            with torch.no_grad():
                return network(*self.arguments(x))[:, :, made, made]

        # A square of pixels in the middle: the first looks farthest ahead, the last farthest back.
        for place, distance in ((middle, radius), (middle + self.reduction - 1, -radius)):
            beyond = noise.clone()
            inside = slice(place - radius, place + radius + 1)
            beyond[:, :, inside, inside] = x[:, :, inside, inside]
            assert torch.equal(pixel(beyond, place), pixel(x, place))
            for axis in (2, 3):
                changed = x.clone()
                line = [slice(None)] * 4
                line[axis] = place + distance
                changed[tuple(line)] = noise[tuple(line)]
                assert not torch.equal(pixel(changed, place), pixel(x, place)), (axis, distance)

    def test_multiply_adds_are_those_that_torch_counts(self):
        network = self.make()
        x = self.images(2, network.in_channels, 12, 9)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network(*self.arguments(x))
        exact = counter.get_total_flops() / (2 * 2 * self.places(12, 9))
        assert network.multiply_adds == round(exact)

    def test_what_moves_in_moves_out(self):
        """Away from the border, where zeros are not moved."""
        network = self.make().double()
        radius = network.receptive_radius
        side = 2 * (radius + 3 * self.reduction)
        x = self.images(2, network.in_channels, side, side).double()
        with torch.no_grad():
            down, across = 2 * self.reduction, self.reduction
            y, moved = (
                network(*self.arguments(one)) for one in (x, x.roll((down, across), (2, 3)))
            )
        y = y.roll((self.scale * down, self.scale * across), (2, 3))
        inside = slice(self.scale * (radius + down), self.scale * (side - radius))
        torch.testing.assert_close(moved[:, :, inside, inside], y[:, :, inside, inside])

    def test_bfloat16_does_what_float32_does(self, x):
        network = self.make()
        y = network(*self.arguments(x))
        with torch.autocast("cpu", torch.bfloat16):
            rough = network(*self.arguments(x))
        torch.testing.assert_close(rough.float(), y, rtol=0.1, atol=0.1)

    def test_a_sigma_for_a_network_of_one_noise_level_is_refused(self, x):
        network = self.make()
        if not network.noise_level_input:
            with pytest.raises(ValueError, match=r"sigma must be None for this network, got 0\.1"):
                network(x, 0.1)


class ConvolutionalConformance(ImageConformance):
    """Subclasses are chains of convolutions, for gray or color."""

    def test_color(self):
        network = self.make(in_channels=3)
        x = self.images(2, 3, 5, 4)
        arguments = self.arguments(x)
        assert network(*arguments).shape == self.shape(x)
        check_gradients(network, arguments)
        mixed = network(*self.arguments(x.flip(1)))
        assert not torch.allclose(mixed.flip(1), network(*arguments))

    def test_every_parameter_gets_a_gradient_in_training(self, x):
        network = self.make().train()
        check_gradients(network, self.arguments(x))


class LayeredConformance(ConvolutionalConformance):
    """Subclasses have `num_layers` layers of as many `channels`, and may be told a noise level."""

    options = {"num_layers": 3, "channels": 4}

    def test_sigma_is_one_number_or_one_per_image(self, x):
        network = self.make(noise_level_input=True)
        y = network(x, 0.1)
        for same in (torch.tensor(0.1), torch.tensor([0.1]), torch.full((5,), 0.1)):
            assert torch.equal(network(x, same), y)
        assert torch.equal(network(x, torch.full((5, 1, 1, 1), 0.1, dtype=torch.float64)), y)
        levels = torch.linspace(0, 0.2, 5)
        each = torch.cat([network(x[i : i + 1], level) for i, level in enumerate(levels.tolist())])
        torch.testing.assert_close(network(x, levels), each)
        assert not torch.allclose(network(x, levels)[0], y[0])
        assert network(x[:0], 0.1).shape == self.shape(x[:0])

    def test_a_missing_or_wrong_sigma_is_refused(self, x):
        network = self.make(noise_level_input=True)
        with pytest.raises(ValueError, match="sigma must be a number, got None"):
            network(x)
        with pytest.raises(ValueError, match="one for each of 5 images, got 3"):
            network(x, torch.ones(3))

    def test_a_noise_level_costs_one_map(self):
        without, told = (self.make(noise_level_input=told) for told in (False, True))
        size, channels = self.options.get("kernel_size", 3), self.options["channels"]
        assert told.num_parameters - without.num_parameters == channels * size**2
        more = told.multiply_adds - without.multiply_adds
        pixels = (self.scale * self.reduction) ** 2
        assert abs(more - channels * size**2 / pixels) < 1  # both are rounded
        assert told.receptive_radius == without.receptive_radius

    @pytest.mark.parametrize("size", [1, 5])
    def test_kernels_of_other_sizes(self, size, x):
        network = self.make(kernel_size=size)
        assert network(*self.arguments(x)).shape == self.shape(x)
        radius = self.reduction * (len(network._chain()) * (size // 2) + 1) - 1
        enlarges = network.residual and self.scale > 1
        assert network.receptive_radius == (max(radius, REACH) if enlarges else radius)

    def test_the_output_gain_scales_the_last_kernel_and_nothing_else(self):
        def state(gain):
            options = {**self.options, "output_gain": gain}
            return MODELS[self.model](**options, generator=generator(0)).state_dict()

        plain = state(1.0)
        for gain in (0.25, 0.0, 4):
            for name, weight in state(gain).items():
                assert torch.equal(weight, plain[name] * (gain if name == "last.weight" else 1))

    def test_without_output_a_network_begins_with_what_it_adds_to(self, x):
        network = self.make(output_gain=0.0)
        y = network(*self.arguments(x))
        assert torch.equal(y, enlarge(x, self.scale) if network.residual else torch.zeros_like(y))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kernel_size": 4}, "kernel_size must be an odd integer >= 1, got 4"),
            ({"kernel_size": 0}, "kernel_size must be an odd integer >= 1, got 0"),
            ({"channels": 0}, "channels must be an integer >= 1, got 0"),
            ({"in_channels": 1.0}, "in_channels must be an integer >= 1, got 1.0"),
            ({"num_layers": 0}, "num_layers must be an integer >= [12], got 0"),
            ({"output_gain": -1.0}, "output_gain must be a number >= 0, got -1.0"),
            ({"output_gain": math.nan}, "output_gain must be a number >= 0, got nan"),
            ({"output_gain": math.inf}, "output_gain must be a number >= 0, got inf"),
        ],
    )
    def test_bad_sizes_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            MODELS[self.model](**{**self.options, **options})


class ConvCodingConformance(LayeredConformance):
    """Subclasses are convolutional coding networks."""

    def test_depth_widths_and_sharing(self):
        layers, channels = 4, 5
        for share, inner in ((False, layers - 1), (True, 1)):
            network = self.make(num_layers=layers, channels=channels, share_weights=share)
            kernels = [w.shape for w in network.parameters() if w.ndim == 4]
            size = network.kernel_size
            assert kernels == [
                (channels, network.first.in_channels, size, size),
                *[(channels, channels, size, size)] * inner,
                (network.out_planes, channels, size, size),
            ]
            assert network.receptive_radius == self.reduction * ((layers + 1) * (size // 2) + 1) - 1

    def test_sharing_changes_what_is_kept_and_not_what_is_computed(self, x):
        shared, separate = (self.make(share_weights=share) for share in (True, False))
        assert shared.multiply_adds == separate.multiply_adds
        state = shared.state_dict()
        for t in range(1, len(separate.others)):
            state[f"others.{t}.weight"] = state["others.0.weight"]
        separate.load_state_dict(state)
        assert torch.equal(shared(*self.arguments(x)), separate(*self.arguments(x)))

    def test_one_layer_has_no_inner_kernels(self, x):
        for share in (True, False):
            options = {"num_layers": 1, "share_weights": share}
            if "step_sizes" in self.options:
                options["step_sizes"] = [0.5]
            network = self.make(**options)
            radius = self.reduction * (2 * (network.kernel_size // 2) + 1) - 1
            assert network.receptive_radius == radius
            assert network(*self.arguments(x)).shape == self.shape(x)

    def test_codes_have_a_place_for_every_pixel_or_square_of_pixels(self, x):
        network = self.make()
        code = network.encode(*self.arguments(x))
        height, width = (-(-side // self.reduction) for side in (5, 4))
        assert code.shape == (5, network.channels, height, width)
        maps, y = network.last(code), network(*self.arguments(x))
        if network.residual:
            y = y - enlarge(x, self.scale)
        for channel in range(network.in_channels):
            side = self.scale * self.reduction
            for row, column in itertools.product(range(side), repeat=2):
                pixels = y[:, channel, row::side, column::side]
                wanted = maps[:, (channel * side + row) * side + column]
                wanted = wanted[:, : pixels.shape[1], : pixels.shape[2]]
                torch.testing.assert_close(pixels, wanted, rtol=1e-5, atol=1e-6)

    def test_without_residual_the_output_is_what_is_rebuilt(self, x):
        plain, residual = (self.make(residual=residual) for residual in (False, True))
        wanted = enlarge(x, self.scale) + plain(*self.arguments(x))
        torch.testing.assert_close(residual(*self.arguments(x)), wanted)

    def test_a_dictionary_that_does_not_fit_is_refused(self):
        kind = MODELS[self.model]
        with pytest.raises(ValueError, match=r"with n = 9, one atom per column, got \(8, 4\)"):
            kind.from_dictionary(torch.ones(8, 4), 2)
        with pytest.raises(ValueError, match=r"with n = 75, one atom per column, got \(9, 4\)"):
            kind.from_dictionary(torch.ones(9, 4), 2, kernel_size=5, in_channels=3)
        with pytest.raises(TypeError, match="floating-point tensor, got ndarray"):
            kind.from_dictionary(torch.ones(9, 4).numpy(), 2)
        with pytest.raises(ValueError, match="must be finite"):
            kind.from_dictionary(torch.full((9, 4), torch.inf), 2)
        with pytest.raises(ValueError, match="kernel_size must be an odd integer"):
            kind.from_dictionary(torch.ones(9, 4), 2, kernel_size=2)

    @pytest.mark.parametrize("reduction", [2, 3])
    def test_atoms_at_a_reduction_are_patches_of_the_image(self, reduction):
        """The first layer compares a square's neighborhood of k·r × k·r pixels with every atom."""
        side, channels = 3 * reduction, 2
        dictionary = torch.randn(channels * side**2, 5, generator=generator(0)).double()
        options = {"in_channels": channels, "reduction": reduction}
        network = MODELS[self.model].from_dictionary(dictionary, 1, **options)
        x = self.images(1, channels, 2 * side, 2 * side).double()
        patch = x[0, :, reduction : reduction + side, 0:side].flatten()  # around place (2, 1)
        seen = network.first(network._seen(x, None))[0, :, 2, 1]
        matched = dictionary.T @ patch
        torch.testing.assert_close(seen * (matched @ seen) / (seen @ seen), matched)

    def test_a_network_from_a_dictionary_does_not_see_its_noise_level_yet(self, x):
        dictionary = torch.randn(9, 4, generator=generator(0))
        options = {"noise_level_input": True, "residual": False}
        network = MODELS[self.model].from_dictionary(dictionary, 3, **options)
        plain = MODELS[self.model].from_dictionary(dictionary, 3, residual=False)
        x = self.images(3, 1, 6, 5)
        torch.testing.assert_close(network(x, 0.3), plain(x))

    def test_a_network_adopts_one_for_less(self):
        plain = self.make(seed=0, in_channels=1, noise_level_input=False)
        gray = self.images(3, 1, 6, 5)
        wanted = plain(gray)
        same = self.make(seed=1, in_channels=1, noise_level_input=False)
        same.adopt(plain)
        assert torch.equal(same(gray), wanted)
        told = self.make(seed=1, in_channels=1, noise_level_input=True)
        told.adopt(plain)
        torch.testing.assert_close(told(gray, 0.3), wanted)
        color = self.make(seed=1, in_channels=3, noise_level_input=True)
        color.adopt(plain)
        torch.testing.assert_close(color(gray.repeat(1, 3, 1, 1), 0.3), wanted.repeat(1, 3, 1, 1))
        again = self.make(seed=2, in_channels=3, noise_level_input=True)
        again.adopt(color)
        assert all(torch.equal(again.state_dict()[n], w) for n, w in color.state_dict().items())

    def test_of_a_network_for_another_scale_all_but_the_output_is_adopted(self):
        options = {"in_channels": 1, "noise_level_input": False}
        x = self.images(2, 1, 6, 5)
        for scale in {1, 2, 3} - {self.scale}:
            other = self.make(seed=1, **options, scale=scale)
            network = self.make(**options)
            kept = network.last.weight.clone()
            network.adopt(other)
            assert torch.equal(network.last.weight, kept)
            for name, weight in network.named_parameters():
                if name != "last.weight":
                    assert torch.equal(weight, other.get_parameter(name)), name
            torch.testing.assert_close(network.encode(x), other.encode(x))
            color = self.make(in_channels=3, noise_level_input=True)
            kept = color.last.weight.clone()
            color.adopt(other)
            assert torch.equal(color.last.weight, kept)
            torch.testing.assert_close(color.encode(x.repeat(1, 3, 1, 1), 0.3), other.encode(x))

    def test_from_a_dictionary_sub_pixels_begin_as_copies_of_their_pixel(self):
        dictionary = torch.randn(3 * 9, 4, generator=generator(0))
        x = self.images(2, 3, 6, 5)
        options = {"in_channels": 3, "residual": False}
        kind = MODELS[self.model]
        y = kind.from_dictionary(dictionary, 3, **options)(x)
        for scale in (2, 3):
            large = kind.from_dictionary(dictionary, 3, scale=scale, **options)(x)
            copies = y.repeat_interleave(scale, 2).repeat_interleave(scale, 3)
            torch.testing.assert_close(large, copies)

    @pytest.mark.parametrize("scale", [0, -1, 2.0, None])
    def test_bad_scales_are_refused(self, scale):
        with pytest.raises(ValueError, match=f"scale must be an integer >= 1, got {scale}"):
            MODELS[self.model](**{**self.options, "scale": scale})

    def test_a_network_that_cannot_be_adopted_is_refused(self):
        network = self.make(noise_level_input=False)
        with pytest.raises(ValueError, match="without a noise-level input cannot adopt"):
            network.adopt(self.make(noise_level_input=True))
        with pytest.raises(ValueError, match="do not fit each other: size mismatch"):
            network.adopt(self.make(noise_level_input=False, channels=network.channels + 1))
        gray = self.make(noise_level_input=False, in_channels=1)
        with pytest.raises(ValueError, match="do not fit each other: size mismatch"):
            gray.adopt(self.make(noise_level_input=False, in_channels=3))
        other = "ConvLISTA" if self.model == "ConvFWNet" else "ConvFWNet"
        with pytest.raises(ValueError, match=f"other must be a {self.model}, got a {other}"):
            network.adopt(MODELS[other](2, 4))
