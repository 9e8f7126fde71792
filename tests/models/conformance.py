"""What every model, and every coding network, must do; a model's test class inherits it."""

import copy
import json

import pytest
import torch
from safetensors import safe_open

from fwnet.models import MODELS, load_model

FEATURES, ATOMS, LAYERS = 6, 9, 4


class ModelConformance:
    """Subclasses name the `model`, say how to `make` it, and how many `outputs` it has."""

    model = ""
    outputs = ATOMS

    def make(self, seed=0):
        raise NotImplementedError

    @pytest.fixture
    def x(self):
        return torch.randn(5, FEATURES, generator=torch.Generator().manual_seed(1))

    def test_is_in_the_registry_under_its_name(self):
        assert MODELS[self.model].__name__ == self.model

    def test_shapes(self, x):
        network = self.make()
        assert network(x).shape == (5, self.outputs)
        assert network(x[0]).shape == (self.outputs,)
        assert network(x.reshape(1, 5, FEATURES)).shape == (1, 5, self.outputs)
        assert network(x[:0]).shape == (0, self.outputs)
        assert network.encode(x).shape == (5, ATOMS)

    def test_rows_do_not_depend_on_each_other(self, x):
        network = self.make()
        torch.testing.assert_close(network(x)[2], network(x[2]))

    def test_a_signal_of_another_length_is_refused(self, x):
        with pytest.raises(ValueError, match=r"n = 6, got \(5, 5\)"):
            self.make()(x[:, :-1])

    def test_every_parameter_gets_a_gradient(self, x):
        network = self.make()
        network(x).square().sum().backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.abs().sum() > 0, name

    def test_gradients_agree_with_differences(self):
        network = self.make().double()
        x = torch.randn(
            3, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(3)
        ).requires_grad_()
        assert torch.autograd.gradcheck(network, (x,))

    def test_state_dict_survives_a_file(self, x, tmp_path):
        network = self.make()
        network.save(tmp_path / "m.safetensors", notes={"data": "none"})
        loaded = load_model(tmp_path / "m.safetensors")
        assert type(loaded) is type(network)
        assert loaded.config == network.config
        assert not loaded.training
        assert torch.equal(loaded(x), network(x))
        with safe_open(tmp_path / "m.safetensors", framework="pt") as file:
            about = json.loads(file.metadata()["fwnet"])
        assert about["notes"] == {"data": "none"}
        assert about["config"] == network.config

    def test_float64_survives_a_file(self, x, tmp_path):
        network = self.make().double()
        network.save(tmp_path / "m.safetensors")
        loaded = load_model(tmp_path / "m.safetensors")
        assert torch.equal(loaded(x.double()), network(x.double()))

    def test_initial_weights_come_from_the_generator(self, x):
        assert torch.equal(self.make(seed=0)(x), self.make(seed=0)(x))
        assert not torch.equal(self.make(seed=0)(x), self.make(seed=1)(x))

    def test_a_copy_is_a_model_of_its_own(self, x):
        network = self.make()
        other = copy.deepcopy(network)
        assert other.config == network.config
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(0.5)
        assert not torch.equal(other(x), network(x))

    def test_compiles_into_one_graph(self, x):
        network = self.make()
        compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), network(x))
        torch._dynamo.reset()

    def test_exports_with_a_dynamic_batch(self, x):
        network = self.make().eval()
        batch = torch.export.Dim("batch", min=2, max=1000)
        program = torch.export.export(network, (x,), dynamic_shapes=({0: batch},))
        more = torch.randn(11, FEATURES)
        torch.testing.assert_close(program.module()(more), network(more))

    def test_repr_names_the_model(self):
        assert repr(self.make()).startswith(f"{self.model}(")

    def test_watched_numbers_can_be_written_as_json(self):
        json.dumps(self.make().watched(), allow_nan=False)


class CodingConformance(ModelConformance):
    """Subclasses name the `options` to test a coding network with, too."""

    options: dict = {}

    def make(self, seed=0, **changes):
        generator = torch.Generator().manual_seed(seed)
        options = {**self.options, **changes}
        return MODELS[self.model](FEATURES, ATOMS, LAYERS, generator=generator, **options)

    def test_a_last_layer_rebuilds_signals(self, x):
        network = self.make(reconstruct=True)
        assert network(x).shape == x.shape
        assert network.encode(x).shape == (5, ATOMS)

    def test_every_parameter_of_a_rebuilding_network_gets_a_gradient(self, x):
        network = self.make(reconstruct=True)
        network(x).square().sum().backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.abs().sum() > 0, name

    def test_depth_widths_and_sharing_are_those_of_every_model(self):
        separate, shared = self.make(share_weights=False), self.make(share_weights=True)
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
    @pytest.mark.parametrize("value", [0, -1, 2.0])
    def test_bad_sizes_are_refused(self, name, value):
        sizes = {"num_features": 6, "num_atoms": 9, "num_layers": 4, name: value}
        with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got {value}"):
            MODELS[self.model](**sizes)
