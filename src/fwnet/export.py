"""Models for other programs: ONNX files, and PyTorch's own exported programs.

An exported model takes batches and images of any size, and σ where the network is told it. Its
results are compared with those of the model before the file is written.
"""

import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from fwnet.errors import FwnetError
from fwnet.files import write_whole
from fwnet.models import ImageModel, Model, SignalModel
from fwnet.zoo import load_model

__all__ = ["Exported", "export_model"]

Shape = tuple[str | int, ...]
TOLERANCE = 1e-4  # for values in [0, 1]: a fortieth of a gray level
MISSING = "ONNX needs onnx, onnxscript and onnxruntime: pip install '.[onnx]' in the clone"


@dataclass(frozen=True)
class Exported:
    """A file that `export_model` wrote.

    Attributes:
        path: Where it is.
        num_bytes: Its size.
        inputs: The shape of every input by name; a word stands for any number.
        result: The shape of the output, which is called "result".
        differences: The largest difference from the model, by kind of input.

    >>> import fwnet
    >>> made = fwnet.export_model(fwnet.FWNet(10, 20, num_layers=2), "coder.pt2")
    >>> made.path.name, made.inputs, max(made.differences.values()) <= 1e-4
    ('coder.pt2', {'signal': ('batch', 10)}, True)
    """

    path: Path
    num_bytes: int
    inputs: dict[str, Shape]
    result: Shape
    differences: dict[str, float]


def export_model(
    model: str | Path | Model, path: str | Path, file_format: str | None = None
) -> Exported:
    """Write a model to a file that runs without fwnet, and check the file against the model.

    The file holds the network in float32. A network for images has the input "image", (batch,
    channel, height, width) in [0, 1], and "sigma", (batch,) on the same scale, if it is told the
    noise level. A model of signals has the input "signal", (batch, n). The output is "result".
    Batch, height and width may be any; images have at least 4 × 4 pixels.

    Random numbers, a photograph and black are compared, for signals random, smooth and zero ones,
    each in another size and batch. A difference above 1e-4 raises an error, and nothing is written.

    Args:
        model: A name from `fwnet.list_models`, the path of a model file, or a model.
        path: The file to write or replace.
        file_format: "onnx", or "torch" for a file that `torch.export.load` reads. None to go by the
            suffix: .onnx or .pt2.

    >>> import fwnet, torch
    >>> net = fwnet.FWNet(10, 20, num_layers=2)
    >>> _ = fwnet.export_model(net, "coder.pt2")
    >>> x = torch.randn(3, 10)
    >>> code = torch.export.load("coder.pt2").module()(x)
    >>> torch.allclose(code, net(x), atol=1e-5)
    True
    """
    if isinstance(model, nn.Module) and not isinstance(model, Model):
        raise TypeError(
            f"model must be a network of fwnet, got {type(model).__name__}: export your own "
            "networks with torch.onnx.export or torch.export.export"
        )
    path = Path(path)
    chosen = FORMATS[_format_of(path, file_format)]
    network = _in_float32(copy.deepcopy(model) if isinstance(model, Model) else load_model(model))
    inputs, result = _shapes(network)
    samples = _samples(network)
    with _quiet(), torch.no_grad():
        content = chosen.write(_program(network, inputs, samples["random"]), inputs)
        run = chosen.reader(content)
        differences = {kind: _difference(run(x), network(*x)) for kind, x in samples.items()}
    for kind, difference in differences.items():
        if not difference <= TOLERANCE:
            raise FwnetError(
                f"the exported network must equal the model to {TOLERANCE:g}, got a difference of "
                f"{difference:.2g} ({kind} input): nothing was written"
            )
    write_whole(path, content)
    return Exported(path, len(content), inputs, result, differences)


def _format_of(path: Path, asked: str | None) -> str:
    suffixes = {one.suffix: name for name, one in FORMATS.items()}
    if asked is None and path.suffix not in suffixes:
        raise FwnetError(
            f"the file must end in {' or '.join(suffixes)}, or a format must be given, got {path}"
        )
    chosen = asked or suffixes[path.suffix]
    if chosen not in FORMATS:
        raise FwnetError(f"format must be {' or '.join(FORMATS)}, got {chosen!r}")
    return chosen


def _in_float32(model: Model) -> Model:
    """Return the model on the CPU, in evaluation mode; fixed p and γ keep their digits."""
    if any(weight.dtype != torch.float32 for weight in model.parameters()):
        model.float()
    return model.to("cpu").eval()


def _shapes(model: Model) -> tuple[dict[str, Shape], Shape]:
    """Return the shapes of inputs and output, with words where any number may stand."""
    if isinstance(model, SignalModel):
        n = model.num_features
        return {"signal": ("batch", n)}, ("batch", model(torch.zeros(1, n)).shape[1])
    if not isinstance(model, ImageModel):
        raise FwnetError(f"expected a model of images or signals, got a {type(model).__name__}")
    inputs: dict[str, Shape] = {"image": ("batch", model.in_channels, "height", "width")}
    if model.noise_level_input:
        inputs["sigma"] = ("batch",)
    scale = "" if model.scale == 1 else f"{model.scale}·"
    return inputs, ("batch", model.in_channels, f"{scale}height", f"{scale}width")


def _samples(model: Any) -> dict[str, tuple[Tensor, ...]]:
    """Return inputs to compare with: random numbers, a photograph (or rows of one), and zeros."""
    import skimage.data

    photo = torch.from_numpy(skimage.data.astronaut()[80:177, 160:280]).permute(2, 0, 1) / 255
    generator = torch.Generator().manual_seed(0)
    if isinstance(model, SignalModel):
        n = model.num_features
        rows = photo.flatten().repeat(1 + 4 * n // photo.numel())[: 4 * n].reshape(4, n)
        random = torch.randn(3, n, generator=generator)
        return {"random": (random,), "smooth": (rows,), "zero": (torch.zeros(1, n),)}
    channels = model.in_channels
    images = {
        "random": torch.rand(3, channels, 33, 46, generator=generator),
        "photograph": photo.repeat(channels, 1, 1)[None, :channels],
        "black": torch.zeros(2, channels, 16, 19),
    }
    if not model.noise_level_input:
        return {kind: (x,) for kind, x in images.items()}
    return {kind: (x, torch.linspace(0.05, 0.2, len(x))) for kind, x in images.items()}


def _axes(inputs: dict[str, Shape]) -> list[dict[int, str]]:
    """Return the axes of any length of every input, with their names."""
    return [
        {axis: word for axis, word in enumerate(shape) if isinstance(word, str)}
        for shape in inputs.values()
    ]


def _program(
    model: Model, inputs: dict[str, Shape], example: tuple[Tensor, ...]
) -> ExportedProgram:
    """Trace the model for any batch and size."""
    batch, size = Dim("batch", min=1), Dim.DYNAMIC  # torch finds the smallest size
    axes = [
        {axis: batch if word == "batch" else size for axis, word in named.items()}
        for named in _axes(inputs)
    ]
    program = torch.export.export(model, example, dynamic_shapes=tuple(axes))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    return program


def _write_onnx(program: ExportedProgram, inputs: dict[str, Shape]) -> bytes:
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise FwnetError(MISSING) from error

    made: Any = torch.onnx.export(
        program,
        input_names=list(inputs),
        output_names=["result"],
        dynamic_shapes=tuple(_axes(inputs)),
        verbose=False,
    )
    graph = made.model_proto
    for part in (*graph.graph.node, *graph.graph.input, *graph.graph.output):
        part.ClearField("metadata_props")  # traces of the exporter
    content: bytes = graph.SerializeToString()
    return content


def _onnx_reader(content: bytes) -> Callable[[tuple[Tensor, ...]], Tensor]:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def run(arguments: tuple[Tensor, ...]) -> Tensor:
        given = {name: x.numpy() for name, x in zip(names, arguments, strict=True)}
        return torch.from_numpy(session.run(None, given)[0])

    return run


def _write_torch(program: ExportedProgram, _: dict[str, Shape]) -> bytes:
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def _torch_reader(content: bytes) -> Callable[[tuple[Tensor, ...]], Tensor]:
    module: Any = torch.export.load(io.BytesIO(content)).module()
    return lambda arguments: module(*arguments)


@dataclass(frozen=True)
class Format:
    """How a program becomes the bytes of a file, and how these run."""

    suffix: str
    write: Callable[[ExportedProgram, dict[str, Shape]], bytes]
    reader: Callable[[bytes], Callable[[tuple[Tensor, ...]], Tensor]]


FORMATS = {
    "onnx": Format(".onnx", _write_onnx, _onnx_reader),
    "torch": Format(".pt2", _write_torch, _torch_reader),
}


def _difference(made: Tensor, wanted: Tensor) -> float:
    """max |made − wanted|; infinite if the shapes differ."""
    return float((made - wanted).abs().max()) if made.shape == wanted.shape else float("inf")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what torch's exporters say about themselves."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
