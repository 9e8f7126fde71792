import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import fwnet
from fwnet.cli import app
from tests.browser.pages import opened, served

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")


def told_sigma():
    """Odd sizes are the hard ones for a network at half resolution."""
    network = fwnet.ConvFWNet(2, 4, noise_level_input=True, reduction=2, output_gain=0.3)
    return network.eval()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    pytest.importorskip("onnxscript", reason="needs the extra onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    torch.manual_seed(0)
    network, path = told_sigma(), tmp_path_factory.mktemp("onnx") / "denoise.onnx"
    return network, fwnet.export_model(network, path)


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)[1]


def test_onnx_says_what_it_takes_and_holds_no_path_of_this_machine(exported):
    import onnx

    _, made = exported
    assert made.inputs == {"image": ("batch", 1, "height", "width"), "sigma": ("batch",)}
    assert set(made.differences) == {"random", "photograph", "black"}
    assert max(made.differences.values()) < 1e-5
    content = made.path.read_bytes()
    assert len(content) == made.num_bytes
    assert str(ROOT).encode() not in content
    assert b"stack_trace" not in content
    dimensions = onnx.load(made.path).graph.input[0].type.tensor_type.shape.dim
    assert [one.dim_param or one.dim_value for one in dimensions] == list(made.inputs["image"])


def test_the_guide_runs_in_onnxruntime(exported, monkeypatch):
    network, made = exported
    monkeypatch.chdir(made.path.parent)
    names = {}
    exec(compile(block("python"), "docs/export.md", "exec"), names)
    with torch.no_grad():
        wanted = network(torch.from_numpy(names["noisy"])[None, None], 25 / 255)
    np.testing.assert_allclose(names["clean"], wanted[0, 0].clamp(0, 1), atol=1e-5)


def test_the_guide_runs_in_onnxruntime_web(exported, tmp_path):
    """The page of the guide in Chromium, with a photo of odd width."""
    from PIL import Image
    from skimage.data import camera

    modules = ROOT / "node_modules"
    if not (modules / "onnxruntime-web").is_dir():
        pytest.skip("needs onnxruntime-web: npm install --no-save onnxruntime-web in the clone")
    network, made = exported
    (tmp_path / "index.html").write_text(block("html"), encoding="utf-8")
    (tmp_path / "denoise.onnx").write_bytes(made.path.read_bytes())
    (tmp_path / "node_modules").symlink_to(modules)
    photo = camera()[100:160, 200:261]
    Image.fromarray(photo).save(tmp_path / "photo.png")
    with served(tmp_path) as address, opened(f"{address}/index.html") as page:
        page.set_input_files("input", tmp_path / "photo.png")
        page.get_by_text("61 × 60, done").wait_for(timeout=60_000)
        shown = page.evaluate(
            "[...document.querySelector('canvas').getContext('2d').getImageData(0, 0, 61, 60).data]"
        )
    with torch.no_grad():
        wanted = network(torch.from_numpy(photo / np.float32(255))[None, None], 25 / 255)
    values = np.reshape(shown, (60, 61, 4))[..., 0]
    assert np.abs(values - 255 * wanted[0, 0].clamp(0, 1).numpy()).max() < 0.51


@pytest.mark.parametrize(
    "network",
    [
        fwnet.ConvFWNet(1, 2, in_channels=3, scale=2),
        fwnet.FWNet(6, 9, num_layers=2, p=1.3, learn_p=False).double(),
    ],
    ids=["enlarging", "codes"],
)
def test_torch_export_takes_every_batch(network, tmp_path):
    before = next(network.parameters()).dtype
    made = fwnet.export_model(network, tmp_path / "m.pt2")
    assert max(made.differences.values()) < 1e-5
    assert next(network.parameters()).dtype == before  # the caller's model stays as it is
    loaded = torch.export.load(made.path).module()
    shape = (1, 3, 5, 7) if made.inputs.get("image") else (1, 6)
    x = torch.rand(shape)
    wanted = network.float().eval()(x)
    torch.testing.assert_close(loaded(x), wanted)
    assert tuple(wanted.shape)[1] == made.result[1]


def test_a_network_that_differs_is_not_written(tmp_path, monkeypatch):
    def spoiled(content):
        return lambda x: told_sigma()(*x) * float("nan")

    broken = fwnet.export.Format(".onnx", lambda *_: b"", spoiled)
    monkeypatch.setitem(fwnet.export.FORMATS, "onnx", broken)
    with pytest.raises(ValueError, match="got a difference of nan"):
        fwnet.export_model(told_sigma(), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path):
    network, path = tmp_path / "m.safetensors", tmp_path / "m.bin"
    fwnet.ConvFWNet(1, 2).save(network)
    command = ["export", str(network), str(path)]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "must end in .onnx or .pt2, or a format must be given, got" in refused.stderr
    result = CliRunner().invoke(app, [*command, "--format", "torch"])
    assert result.exit_code == 0, result.output
    assert "image   (batch, 1, height, width)" in result.stdout
    assert re.search(r"random \S+, photograph \S+, black \S+\n[1-9]\d* kB written", result.stdout)
    again = CliRunner().invoke(app, [*command, "--format", "torch"])
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def test_networks_of_others_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"got Linear: export your own .* torch\.onnx\.export"):
        fwnet.export_model(torch.nn.Linear(2, 3), tmp_path / "linear.onnx")


def test_inputs_of_a_network_for_signals_have_names_of_their_own(tmp_path):
    made = fwnet.export_model(fwnet.FWNet(10, 20, num_layers=2), tmp_path / "coder.pt2")
    assert set(made.differences) == {"random", "smooth", "zero"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuchmodel", "out.onnx"], "no model and no file is called 'nosuchmodel'"),
        (["nosuchmodel", "out.onnx", "--format", "tf"], "format must be onnx or torch, got 'tf'"),
        (["nosuchmodel", "."], "it exists and is not a file"),
    ],
)
def test_bad_commands(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["export", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
