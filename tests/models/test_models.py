import itertools
import json
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from sklearn.linear_model import Lasso

import fwnet
from fwnet.experiments.feed_forward import FeedForward
from fwnet.experiments.sequence_reader import Cell, SequenceReader, hidden_size_for, make_cell
from fwnet.experiments.sequences import adding_problem
from fwnet.models import (
    MLP,
    CodeClassifier,
    ConvFWNet,
    FWNet,
    ModelFileError,
    create_model,
    load_model,
    restore_model,
)
from fwnet.models.lcod import LCoD
from fwnet.models.lista import LISTA
from tests.models.conformance import (
    ATOMS,
    FEATURES,
    CodingConformance,
    CompileConformance,
    ExportConformance,
    SignalConformance,
)


class TestFWNet(ExportConformance, CodingConformance):
    model = "FWNet"
    options = {"radius": 2.0, "p": 1.5}


class TestFWNetWithEverythingLearned(CompileConformance, CodingConformance):
    model = "FWNet"
    options = {"p_per_layer": True, "learn_radius": True, "p": 1.7, "radius": 3.0}


class TestFWNetWithoutSkip(CodingConformance):
    model = "FWNet"
    options = {"skip": False, "step_sizes": [1.0, 0.9, 0.8, 0.7], "p": 1.4}


class TestFWNetWithExactSteps(ExportConformance, CodingConformance):
    model = "FWNet"
    options = {"line_search": "exact", "learn_radius": True, "p": 1.7, "radius": 3.0}


class TestFWNetThatShrinks(ExportConformance, CompileConformance, CodingConformance):
    model = "FWNet"
    options = {
        "line_search": "conjugate",
        "activation": "shrink",
        "learn_radius": True,
        "free_entries": 1,
    }


class TestMLP(ExportConformance, CodingConformance):
    model = "MLP"


class TestMLPWithLinearOutput(CodingConformance):
    model = "MLP"
    options = {"linear_output": True}


class TestLISTA(ExportConformance, CodingConformance):
    model = "LISTA"
    options = {"threshold": 0.01}


class TestCoupledLISTA(ExportConformance, CodingConformance):
    model = "LISTA"
    options = {"threshold": 0.01, "coupled": True, "free_entries": 1}


class TestALISTA(CodingConformance):
    model = "ALISTA"
    options = {"threshold": 0.01, "free_entries": 1}

    def test_only_thresholds_and_slopes_are_learned(self):
        network = self.make()
        assert network.num_parameters == 4 * ATOMS + 4
        rows = (network.first.weight * network.others[0].weight.T).sum(-1)
        torch.testing.assert_close(rows, torch.ones(ATOMS))


class TestLCoD(ExportConformance, CompileConformance, CodingConformance):
    model = "LCoD"
    options = {"threshold": 0.01}


class TestCodeClassifier(ExportConformance, SignalConformance):
    model = "CodeClassifier"
    outputs = 4

    def make(self, seed=0):
        encoder = {
            "model": "FWNet",
            "num_features": FEATURES,
            "num_atoms": ATOMS,
            "num_layers": 3,
            "p": 1.5,
        }
        generator = torch.Generator().manual_seed(seed)
        return CodeClassifier(encoder, self.outputs, generator=generator)

    def test_codes_are_those_of_the_network(self, x):
        encoder = FWNet(FEATURES, ATOMS, 3, p=1.4, radius=2.0).double()
        classifier = CodeClassifier.on(encoder, 4)
        assert torch.equal(classifier.encode(x.double()), encoder(x.double()))
        with torch.no_grad():
            encoder.first.weight.zero_()
        assert classifier.encode(x.double()).abs().sum() > 0

    def test_what_is_watched_is_that_of_the_network(self):
        assert self.make().watched()["p"] == pytest.approx(1.5)

    @pytest.mark.parametrize(
        ("encoder", "message"),
        [
            ("FWNet", "must be a mapping with the key model, got 'FWNet'"),
            ({"model": "nothing"}, "must be one of"),
            ({"model": "FeedForward", "num_features": 3, "hidden": [2], "num_classes": 2}, "codes"),
            (
                {
                    "model": "FWNet",
                    "num_features": 3,
                    "num_atoms": 2,
                    "num_layers": 2,
                    "reconstruct": True,
                },
                "must give codes",
            ),
        ],
    )
    def test_bad_encoders(self, encoder, message):
        with pytest.raises(ValueError, match=message):
            CodeClassifier(encoder, 3)

    @pytest.mark.parametrize("count", [1, 0, 2.0])
    def test_bad_numbers_of_classes(self, count):
        with pytest.raises(ValueError, match="num_classes must be an integer >= 2"):
            CodeClassifier.on(FWNet(3, 4, 2), count)


class TestFeedForward(ExportConformance, SignalConformance):
    model = "FeedForward"
    outputs = 4

    def make(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        return FeedForward(FEATURES, [8, ATOMS], self.outputs, generator=generator)

    def test_weights_are_those_that_lecun_counts(self):
        for hidden, weights in (
            ([300, 100], 266_200),
            ([500, 150], 468_500),
            ([500, 300], 545_000),
        ):
            model = FeedForward(784, hidden, 10)
            assert sum(w.numel() for w in model.parameters() if w.ndim == 2) == weights

    def test_bad_widths(self):
        with pytest.raises(ValueError, match=r"all widths must be integers >= 1, got \[3, 0, 2\]"):
            FeedForward(3, [0], 2)


class TestSequenceReader(SignalConformance):
    model = "SequenceReader"
    outputs = 4

    def make(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        return SequenceReader("gated FWCell", 3, 2, ATOMS, self.outputs, generator=generator)

    @pytest.mark.parametrize("cell", get_args(Cell))
    def test_every_cell_remembers_the_first_step(self, cell, x):
        network = SequenceReader(cell, 3, 2, ATOMS, 4)
        x.requires_grad_()
        network(x).square().sum().backward()
        assert (x.grad[:, :2].abs().sum(-1) > 0).all()


def test_cells_have_as_many_parameters():
    for cell in get_args(Cell):
        made = make_cell(cell, 8, hidden_size_for(cell, 8, 5000))
        assert sum(w.numel() for w in made.parameters()) == pytest.approx(5000, rel=0.03)
    with pytest.raises(ValueError, match=r"cell must be one of FWCell, .*, got 'none'"):
        SequenceReader("none", 3, 2, 4, 1)


def test_the_adding_problem_is_a_sum_of_two_numbers():
    x, y = adding_problem(50, 0, "test")
    pairs = x.unflatten(1, (50, 2))
    assert (pairs[..., 1].sum(1) == 2).all()
    assert (pairs[:, :25, 1].sum(1) == 1).all()
    torch.testing.assert_close(pairs.prod(-1).sum(1, keepdim=True), y)
    assert not torch.equal(x, adding_problem(50, 1, "test")[0])


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


@settings(deadline=None, max_examples=40)
@given(
    p=st.one_of(st.just(1.0), st.floats(1.01, 8.0)),
    radius=st.floats(0.1, 10.0),
    layers=st.integers(1, 12),
    share=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_untrained_with_fixed_steps_it_is_the_frank_wolfe_algorithm(p, radius, layers, share, seed):
    dictionary, x = normal(7, 11, seed=seed), normal(4, 7, seed=seed + 1)
    network = FWNet.from_dictionary(
        dictionary,
        layers,
        radius=radius,
        p=p,
        learn_p=False,
        learn_step_sizes=False,
        share_weights=share,
    )
    solution = fwnet.solve(
        x,
        dictionary,
        fwnet.LpBall(p, radius),
        method="frank-wolfe",
        max_steps=layers,
        tol=1e-15,
    )
    torch.testing.assert_close(network(x), solution.code, rtol=1e-9, atol=1e-11 * radius)


def test_learned_step_sizes_start_where_the_algorithm_is():
    dictionary, x = normal(7, 11), normal(4, 7, seed=1)
    fixed, learned = (
        FWNet.from_dictionary(dictionary, 5, radius=2.0, p=1.3, learn_step_sizes=learn)
        for learn in (False, True)
    )
    assert fixed.step_sizes.tolist() == pytest.approx([2 / (t + 2) for t in range(5)])
    # sigmoid(6) in the place of 1, of which no logit is finite
    assert learned.step_sizes.tolist() == pytest.approx([2 / (t + 2) for t in range(5)], abs=3e-3)
    assert (fixed(x) - learned(x)).abs().max() < 0.01


@pytest.mark.parametrize(
    ("learn_p", "learn_step_sizes", "per_layer", "radius", "count"),
    [
        (True, True, False, False, 1 + 5),
        (False, True, False, False, 5),
        (True, False, False, False, 1),
        (False, False, False, False, 0),
        (True, True, True, True, 5 + 5 + 5),
    ],
)
def test_what_is_learned(learn_p, learn_step_sizes, per_layer, radius, count):
    network = FWNet(
        4,
        6,
        5,
        learn_p=learn_p,
        learn_step_sizes=learn_step_sizes,
        p_per_layer=per_layer,
        learn_radius=radius,
    )
    assert network.num_parameters == 4 * 6 + 4 * 6 * 6 + count


def test_codes_stay_in_the_ball():
    network = FWNet(5, 8, 6, radius=3.0, p=1.6)
    codes = network(torch.randn(50, 5))
    assert fwnet.LpBall(1.6, 3.0).gauge(codes).max() <= 1 + 1e-5


def test_without_skip_the_signal_enters_once():
    """z' = (1 − γ)z + γ·pool_p(W z): the ablation of the paper."""
    network = FWNet(5, 8, 2, radius=3.0, p=1.6, skip=False)
    x = torch.randn(4, 5)
    z = network.step_sizes[0] * fwnet.pool_p(network.first(x), network.p, 3.0)
    s = fwnet.pool_p(network.others[0](z), network.p, 3.0)
    gamma = network.step_sizes[1]
    torch.testing.assert_close(network(x), (1 - gamma) * z + gamma * s)


def test_step_sizes_of_1_leave_the_last_layer_alone():
    network = FWNet(5, 8, 3, radius=2.0, p=1.6, step_sizes=[1.0] * 3, learn_step_sizes=False)
    codes = network(torch.randn(4, 5))
    gauge = fwnet.LpBall(1.6, 2.0).gauge(codes)
    torch.testing.assert_close(gauge, torch.ones(4))


def test_radius_and_p_of_a_layer_are_used_in_that_layer():
    network = FWNet(5, 8, 3, radius=2.0, p=1.6, p_per_layer=True, learn_radius=True)
    x = torch.randn(4, 5)
    z = network(x).sum()
    gradients = torch.autograd.grad(
        z, [network.steps.log_radii, *(e.log_excess for e in network.steps.exponents)]
    )
    assert (gradients[0] != 0).all()
    assert all(gradient != 0 for gradient in gradients[1:])
    with torch.no_grad():
        network.steps.log_radii[2] += 1.0
    before = fwnet.pool_p(network.first(x), 1.6, 2.0) * network.step_sizes[0]
    u = network.first(x) + network.others[0](before)
    gamma = network.step_sizes[1]
    middle = (1 - gamma) * before + gamma * fwnet.pool_p(u, 1.6, 2.0)
    u = network.first(x) + network.others[1](middle)
    gamma = network.step_sizes[2]
    last = (1 - gamma) * middle + gamma * fwnet.pool_p(u, 1.6, 2.0 * np.e)
    torch.testing.assert_close(network(x), last, rtol=1e-4, atol=1e-5)


def test_layers_use_their_matrices_in_order():
    network = FWNet(5, 8, 4, step_sizes=[1.0] * 4, learn_step_sizes=False)
    with torch.no_grad():
        for layer in network.others:
            layer.weight.normal_()
    x = torch.randn(3, 5)
    z = fwnet.pool_p(network.first(x), network.p)
    for layer in network.others:
        z = fwnet.pool_p(network.first(x) + layer(z), network.p)
    torch.testing.assert_close(network(x), z)


def test_mlp_is_fwnet_without_p():
    mlp, fw = MLP(5, 8, 4), FWNet(5, 8, 4)
    assert mlp.num_parameters == fw.num_parameters - 1
    assert mlp.p is None
    x = torch.randn(200, 5)
    assert (mlp(x) >= 0).all()
    signed = MLP(5, 8, 4, linear_output=True)(x)
    assert (signed < 0).any()
    assert (signed > 0).any()
    relu = FWNet(5, 8, 4, activation="relu")
    relu.load_state_dict(mlp.state_dict())
    assert torch.equal(relu(x), mlp(x))


@pytest.mark.parametrize("coupled", [False, True])
def test_untrained_lista_is_ista(coupled):
    dictionary, x, threshold = normal(7, 11), normal(4, 7, seed=1), 0.03
    network = LISTA.from_dictionary(dictionary, 6, threshold=threshold, coupled=coupled)
    d, signals = dictionary.numpy(), x.numpy()
    lipschitz = np.linalg.norm(d, 2) ** 2
    z = np.zeros((4, 11))
    for _ in range(6):
        u = z - (z @ d.T - signals) @ d / lipschitz
        z = np.sign(u) * np.maximum(np.abs(u) - threshold, 0)
    np.testing.assert_allclose(network(x).detach().numpy(), z, rtol=1e-6, atol=1e-9)


def test_lista_keeps_its_free_entries():
    network = LISTA(5, 8, 1, threshold=100.0, free_entries=2)
    x = torch.randn(6, 5)
    b, code = network.first(x), network(x)
    assert ((code != 0).sum(-1) == 2).all()
    assert torch.equal(code[code != 0], b[code != 0])


def test_untrained_lcod_is_coordinate_descent():
    """Enough updates reach the Lasso's solution, also for atoms that are not of norm 1."""
    dictionary, x, penalty = normal(9, 6), normal(5, 9, seed=1), 0.5
    norms = dictionary.square().sum(0)
    network = LCoD.from_dictionary(dictionary, 1000, threshold=0.1)
    with torch.no_grad():  # θ_j = λ/‖d_j‖²
        network.raw_threshold.copy_((penalty / norms).expm1().log())
    lasso = Lasso(alpha=penalty / 9, fit_intercept=False, tol=1e-12, max_iter=100_000)
    with torch.no_grad():
        codes = network(x).numpy()
    for code, signal in zip(codes, x.numpy(), strict=True):
        lasso.fit(dictionary.numpy(), signal)
        np.testing.assert_allclose(code, lasso.coef_, atol=1e-8)


def test_lcod_changes_one_entry_an_update():
    network = LCoD(6, 9, 2, threshold=0.05)
    x = torch.randn(3, 6)
    b = network.first(x)
    first = fwnet.soft_threshold(b, 0.05)
    k = first.abs().argmax(-1)
    expected = b.clone()
    for row, index in enumerate(k.tolist()):
        expected[row] += first[row, index] * network.others[0].weight[:, index]
    torch.testing.assert_close(network(x), fwnet.soft_threshold(expected, 0.05))


@pytest.mark.parametrize("kind", [FWNet, LISTA, LCoD])
def test_a_dictionary_that_is_none_is_refused(kind):
    with pytest.raises(TypeError, match="floating-point tensor, got ndarray"):
        kind.from_dictionary(np.zeros((3, 4)), 2)
    with pytest.raises(ValueError, match=r"shape \(n, m\), one atom per column, got \(3,\)"):
        kind.from_dictionary(torch.zeros(3), 2)
    with pytest.raises(ValueError, match="must be finite"):
        kind.from_dictionary(torch.full((3, 4), torch.nan), 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_sizes": [1.0]}, "one value per layer, 3, got 1"),
        ({"step_sizes": [1.0, 2.0, 0.5]}, r"in \[0, 1\]"),
        ({"activation": "tanh"}, "pool_p or relu, got 'tanh'"),
        ({"radius": -1.0}, "radius must be > 0"),
        ({"p": 0.5}, r"p must be in \[1, inf\], got 0.5"),
        ({"p": 1.0}, "p must start within bounds"),
        ({"input_scale": 0.0}, "input_scale must be > 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FWNet(4, 6, 3, **options)


def test_numbers_of_numpy_and_torch_are_written_as_plain_ones(tmp_path):
    network = FWNet(
        np.int64(3).item(),
        4,
        2,
        radius=np.float32(5),
        p=np.float64(1.5),
        step_sizes=torch.tensor([1.0, 0.5]),
    )
    network.save(tmp_path / "m.safetensors")
    assert load_model(tmp_path / "m.safetensors").config["step_sizes"] == [1.0, 0.5]


def test_names_of_models():
    assert isinstance(create_model("LISTA", num_features=3, num_atoms=4, num_layers=2), LISTA)
    with pytest.raises(ValueError, match=r"one of .*FWNet.*, got 'ResNet'"):
        create_model("ResNet")


def test_a_model_is_loaded_with_the_dtype_of_its_file_or_another(tmp_path):
    path = tmp_path / "m.safetensors"
    network = FWNet(3, 4, 2, p=1.3, learn_p=False)
    network.half().save(path)
    assert load_model(path).first.weight.dtype == torch.float16
    loaded = load_model(path, dtype=torch.float32)
    assert {w.dtype for w in loaded.parameters()} == {torch.float32}
    assert torch.equal(loaded.first.weight, network.first.weight.float())
    assert load_model(path, dtype=torch.float64).first.weight.dtype == torch.float64


def test_a_file_of_several_dtypes_makes_a_model_of_the_default_one(tmp_path):
    path = tmp_path / "m.safetensors"
    network = FWNet(3, 4, 2, p=1.3, learn_p=False)
    about = {"model": "FWNet", "config": network.config}
    kept = {n: w.half() if w.ndim == 2 else w for n, w in network.state_dict().items()}
    save_file(kept, path, {"fwnet": json.dumps(about)})
    for loaded in (load_model(path), load_model(path, dtype=torch.float32)):
        assert {w.dtype for w in loaded.parameters()} == {torch.float32}
        assert loaded.p.item() == 1 + (1.3 - 1)  # fixed numbers keep float64


def test_files_that_hold_no_model(tmp_path):
    missing, text, tensors = (tmp_path / name for name in ("a", "b", "c"))
    text.write_text("not a model")
    save_file({"w": torch.zeros(2)}, tensors)
    torch.save({"w": torch.zeros(2)}, tmp_path / "d")  # a pickle: never opened
    for path, message in (
        (missing, "does not exist"),
        (tmp_path, "is not a file"),
        (text, "not a model file of fwnet"),
        (tmp_path / "d", "not a model file of fwnet"),
        (tensors, "no fwnet model"),
    ):
        with pytest.raises(ModelFileError, match=message):
            load_model(path)


def test_inputs_of_another_dtype_are_refused_and_autocast_is_not():
    network, x = FWNet(5, 8, 2), torch.randn(3, 5, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"x must be float32, as the network is, got float64: conv"):
        network(x)
    assert network.double()(x).dtype == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert network.float()(x.float()).isfinite().all()
    with pytest.raises(TypeError, match="x must be float32"):
        ConvFWNet(2, 4)(torch.rand(1, 1, 8, 8, dtype=torch.float64))


def test_files_that_were_tampered_with(tmp_path):
    path = tmp_path / "m.safetensors"
    network = FWNet(3, 4, 2)
    for change, message in (
        ({"model": "Nothing"}, "cannot be made here: model must be one of"),
        ({"config": {"num_features": 3}}, "cannot be made here"),
        ({"config": {**network.config, "num_atoms": 5}}, "does not fit its configuration"),
    ):
        about = {"model": "FWNet", "config": network.config, **change}
        save_file(network.state_dict(), path, {"fwnet": json.dumps(about)})
        with pytest.raises(ModelFileError, match=message):
            load_model(path)


def test_a_file_cut_short_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    FWNet(3, 4, 2).save(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ModelFileError, match="not a model file of fwnet"):
        load_model(path)


def test_saving_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    FWNet(3, 4, 2).save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        FWNet(3, 4, 3).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_shared_weights_are_kept_once(tmp_path):
    sizes = []
    for share, layers in itertools.product((True, False), (3, 8)):
        path = tmp_path / "m.safetensors"
        FWNet(6, 20, layers, share_weights=share).save(path)
        sizes.append(path.stat().st_size)
    assert sizes[1] - sizes[0] < 500 < sizes[3] - sizes[2]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"num_layers": 10**9}, r"sizes must be at most 10000 for 140 weights, got 1000000000"),
        ({"num_atoms": 10**8}, r"sizes must be at most 10000 for 140 weights, got 100000000"),
        ({"num_atoms": 9_000, "num_features": 9_000}, r"expected \d+ weights, got 140"),
        ({"num_layers": 9_000}, r"expected \d+ weights, got 140"),
    ],
)
def test_a_small_file_cannot_ask_for_much_memory(changed, expected):
    network = FWNet(6, 9, 4, share_weights=True)
    with pytest.raises(ValueError, match=expected):
        restore_model("FWNet", network.config | changed, network.state_dict())


def test_many_layers_with_the_same_weights_are_no_exception():
    network = FWNet(2, 3, 500, share_weights=True)
    restored = restore_model("FWNet", network.config, network.state_dict())
    x = torch.randn(4, 2)
    assert torch.equal(restored(x), network.eval()(x))
