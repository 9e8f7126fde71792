"""Convolutional coding networks: the Frank-Wolfe Network, and learned ISTA of the same form."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pixel_unshuffle, softplus

from fwnet.checks import check_num_layers, check_size
from fwnet.functional import soft_threshold
from fwnet.models.coding_network import (
    FrankWolfeLayers,
    ThresholdLayers,
    UnrolledLayers,
    check_dictionary,
    raw_thresholds,
)
from fwnet.models.image_model import (
    ConvolutionalModel,
    check_kernel_size,
    convolution,
    set_normal,
)
from fwnet.nn import Activation, Unrolled


class ConvCodingNetwork(UnrolledLayers, ConvolutionalModel):
    """W_0 for the image, W_1 … W_{T−1} for codes, W_R from codes to an image: all convolutions.

    A code holds the `channels` values of one place: a pixel or, with a `reduction`, a square of
    pixels. Subclasses implement the layers (`_encode`) and the kernels for a dictionary
    (`_set_atoms`). T layers have T + 1 convolutions from image to image. The initial kernels are
    normal, of variance 1/fan-in.

    The arguments are those of `ConvFWNet`; `image` are those of `ImageModel`.
    """

    def __init__(
        self,
        num_layers: int,
        channels: int,
        *,
        kernel_size: int,
        share_weights: bool,
        **image: Any,
    ) -> None:
        super().__init__(**image)
        check_num_layers(num_layers)
        check_size("channels", channels)
        check_kernel_size(kernel_size)
        self.num_layers, self.channels, self.kernel_size = num_layers, channels, kernel_size
        self.first = convolution(self.in_planes, channels, kernel_size, bias=False)
        count = min(1, num_layers - 1) if share_weights else num_layers - 1
        self.others = nn.ModuleList(
            convolution(channels, channels, kernel_size, bias=False) for _ in range(count)
        )
        self.last = convolution(channels, self.out_planes, kernel_size, bias=False)

    @classmethod
    def from_dictionary(cls, dictionary: Tensor, num_layers: int, **options: Any) -> Self:
        """Return the network that approximates the algorithm for D before training.

        DᵀD is a convolution with kernels of side 2k − 1; the network keeps its central k × k part.
        In the residual form W_R keeps its random values, since it predicts noise, not the image.

        Args:
            dictionary: D, of shape (n, m), one atom per column; n = in_channels·(k·r)² numbers of a
                patch, channel by channel and row by row, where r is the reduction.
            num_layers: T.
            options: The other arguments of the constructor.
        """
        check_dictionary(dictionary)
        options |= {"num_layers": num_layers, "channels": dictionary.shape[1]}
        network = cls(**options).to(dictionary)
        side = network.kernel_size * network.reduction
        n = network.in_channels * side**2
        if dictionary.shape[0] != n:
            raise ValueError(
                f"dictionary must have shape (n, m) with n = {n}, one atom per column, "
                f"got {tuple(dictionary.shape)}"
            )
        patches = dictionary.T.reshape(-1, network.in_channels, side, side)
        atoms = pixel_unshuffle(patches, network.reduction)
        with torch.no_grad():
            network._set_atoms(atoms)
            if network.noise_level_input:
                network.first.weight[:, -1:] = 0
            if not network.residual:  # sub-pixels start as copies of their pixel
                output = atoms.transpose(0, 1).flip(2, 3)
                network.last.weight.copy_(output.repeat_interleave(network.scale**2, 0))
        return network

    def adopt(self, other: "ConvCodingNetwork") -> None:
        """Copy the weights of `other`, which may be for gray images or for one noise level.

        If `other` has no noise-level input, the noise level has no effect at first. If it is for
        gray images, three equal color channels give its result in each channel. W_R is not copied
        from a network of another scale. The reduction must be the same.
        """
        if type(other) is not type(self):
            raise ValueError(f"other must be a {type(self).__name__}, got a {type(other).__name__}")
        if other.noise_level_input and not self.noise_level_input:
            raise ValueError("a network without a noise-level input cannot adopt one with it")
        state = dict(other.state_dict())
        copies = self.in_channels if other.in_channels == 1 else 1
        level_at = state["first.weight"].shape[1] - other.noise_level_input
        kernels, level = state["first.weight"].tensor_split([level_at], 1)
        if self.noise_level_input and not other.noise_level_input:
            level = kernels.new_zeros(kernels.shape[0], 1, *kernels.shape[2:])
        state["first.weight"] = torch.cat([*[kernels / copies] * copies, level], 1)
        state["last.weight"] = state["last.weight"].repeat(copies, 1, 1, 1)
        if other.scale != self.scale:
            state["last.weight"] = self.last.weight
        try:
            self.load_state_dict(state)
        except RuntimeError as error:
            lines = str(error).strip().splitlines()
            raise ValueError(f"the networks do not fit each other: {lines[-1].strip()}") from error

    def encode(self, x: Tensor, sigma: float | Tensor | None = None) -> Tensor:
        """Return the codes, (batch, m, h/r, w/r), of images; arguments are those of `forward`."""
        return self._encode(self._seen(x, sigma))

    @abstractmethod
    def _encode(self, seen: Tensor) -> Tensor:
        """Return the codes of what the network sees."""

    @abstractmethod
    def _set_atoms(self, atoms: Tensor) -> None:
        """Set W_0 and W_t to those of the algorithm, for atoms of shape (m, planes, k, k)."""

    def _transform(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self._encode(x))
        return y

    def _chain(self) -> list[nn.Conv2d]:
        return [self.first, *self._matrices(), self.last]

    def _set_normal(self, output_gain: float, generator: torch.Generator | None) -> None:
        *inner, last = self._chain()
        set_normal(inner, 1.0, generator)
        set_normal([last], output_gain, generator)


class ConvFWNet(FrankWolfeLayers, ConvCodingNetwork):
    """z^{t+1} = (1 − γ_t)·z^t + γ_t·pool_p(W_t ∗ z^t + W_0 ∗ x),   z⁰ = 0,   y = x + W_R ∗ z^T.

    pool_p acts across channels, at every pixel. W_0 ∗ x is computed once and added at every layer.
    The authors' own networks have `residual=False`, y = W_R ∗ z^T, and `eps=0`.

    Args:
        num_layers: T.
        channels: The number of feature maps (default 64).
        in_channels: 1 for gray (default), 3 for color.
        kernel_size: The side of all kernels, odd (default 3).
        radius: The radius c of the ball at every pixel (default 1).
        learn_radius: Whether every layer learns a radius of its own (default False).
        p: The exponent, or its initial value (default 1.5).
        learn_p: Whether p is learned (default True).
        p_per_layer: Whether every layer has its own p (default False). Not in the paper.
        step_sizes: The T values of γ_t, or their initial values (default 2/(t + 2)).
        learn_step_sizes: Whether γ_t are learned (default True).
        share_weights: Whether W_1 … W_{T−1} are one kernel (default False).
        residual: Whether the output is x + W_R ∗ z (default); otherwise W_R ∗ z.
        noise_level_input: Whether W_0 gets one more channel, which holds σ (default False).
        scale: Scale factor s (default 1): y is s times the height and width of x, and its pixels
            are the s² maps of W_R ∗ z (sub-pixel convolution). The paper's network gets an enlarged
            image instead.
        reduction: r (default 1): with 2, the network works at half the height and width of x, on
            four planes: a quarter of the work, and twice the reach. Not in the paper.
        skip: Whether every layer adds W_0 ∗ x (default True), or only the first.
        activation: "pool_p", or "relu" for max(−u, 0) instead.
        bounds: The interval of a learned p.
        eps: See `fwnet.pool_p` (default 1e-3). With 0, rounding noise in black areas would get the
            full radius.
        output_gain: The initial scale of W_R: its entries are N(0, gain²/fan-in) (default 1).
        generator: The random generator of the initial weights.

    A network for noise of any level, told σ, at half resolution:

    >>> import fwnet, torch
    >>> net = fwnet.ConvFWNet(num_layers=4, channels=16, reduction=2, noise_level_input=True)
    >>> net(torch.rand(1, 1, 64, 48), 25 / 255).shape, net.receptive_radius
    (torch.Size([1, 1, 64, 48]), 11)

    One that triples the height and width:

    >>> fwnet.ConvFWNet(num_layers=4, channels=16, scale=3)(torch.rand(1, 1, 64, 48)).shape
    torch.Size([1, 1, 192, 144])
    """

    def __init__(
        self,
        num_layers: int,
        channels: int = 64,
        *,
        in_channels: int = 1,
        kernel_size: int = 3,
        radius: float = 1.0,
        learn_radius: bool = False,
        p: float = 1.5,
        learn_p: bool = True,
        p_per_layer: bool = False,
        step_sizes: Sequence[float] | None = None,
        learn_step_sizes: bool = True,
        share_weights: bool = False,
        residual: bool = True,
        noise_level_input: bool = False,
        scale: int = 1,
        reduction: int = 1,
        skip: bool = True,
        activation: Activation = "pool_p",
        bounds: Sequence[float] = (1.001, 100.0),
        eps: float = 1e-3,
        output_gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_layers,
            channels,
            in_channels=in_channels,
            kernel_size=kernel_size,
            residual=residual,
            noise_level_input=noise_level_input,
            share_weights=share_weights,
            scale=scale,
            reduction=reduction,
        )
        self.steps = Unrolled(
            num_layers,
            p=p,
            learn_p=learn_p,
            p_per_layer=p_per_layer,
            bounds=bounds,
            radius=radius,
            learn_radius=learn_radius,
            step_sizes=step_sizes,
            learn_step_sizes=learn_step_sizes,
            skip=skip,
            activation=activation,
            dim=1,
            eps=eps,
        )
        self._set_normal(output_gain, generator)

    def _encode(self, seen: Tensor) -> Tensor:
        codes: Tensor = self.steps(self.first(seen), self._matrices())
        return codes

    def _set_atoms(self, atoms: Tensor) -> None:
        self.first.weight[:, : atoms.shape[1]] = -atoms
        for layer in self._matrices():
            layer.weight.copy_(gram_kernels(atoms))


class ConvLISTA(ThresholdLayers, ConvCodingNetwork):
    """z^{t+1} = h_θt(W_t ∗ z^t + W_0 ∗ x),   z⁰ = 0,   y = x + W_R ∗ z^T,   h_θ: soft threshold.

    Every layer has one threshold per map, kept positive as softplus(ρ).

    Args:
        threshold: The initial thresholds, > 0 (default 0.01).

    The other arguments are those of `ConvFWNet`.

    >>> import fwnet, torch
    >>> fwnet.ConvLISTA(num_layers=3, channels=16)(torch.rand(1, 1, 32, 32)).shape
    torch.Size([1, 1, 32, 32])
    """

    def __init__(
        self,
        num_layers: int,
        channels: int = 64,
        *,
        in_channels: int = 1,
        kernel_size: int = 3,
        threshold: float = 0.01,
        share_weights: bool = False,
        residual: bool = True,
        noise_level_input: bool = False,
        scale: int = 1,
        reduction: int = 1,
        output_gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(
            num_layers,
            channels,
            in_channels=in_channels,
            kernel_size=kernel_size,
            residual=residual,
            noise_level_input=noise_level_input,
            share_weights=share_weights,
            scale=scale,
            reduction=reduction,
        )
        self.raw_thresholds = nn.ParameterList(
            raw_thresholds(threshold, channels) for _ in range(num_layers)
        )
        self._set_normal(output_gain, generator)

    def _encode(self, seen: Tensor) -> Tensor:
        b = self.first(seen)
        thresholds = [softplus(raw).reshape(-1, 1, 1).to(b.dtype) for raw in self.raw_thresholds]
        z = soft_threshold(b, thresholds[0])
        for matrix, threshold in zip(self._matrices(), thresholds[1:], strict=True):
            z = soft_threshold(b + matrix(z), threshold)
        return z

    def _set_atoms(self, atoms: Tensor) -> None:
        lipschitz = squared_norm(atoms)
        self.first.weight[:, : atoms.shape[1]] = atoms / lipschitz
        for layer in self._matrices():
            layer.weight.copy_(-gram_kernels(atoms) / lipschitz)
            middle = self.kernel_size // 2
            layer.weight[:, :, middle, middle] += torch.eye(self.channels).to(atoms)


def gram_kernels(atoms: Tensor) -> Tensor:
    """(DᵀD)_ij(δ) = Σ_o d_i(o)·d_j(o − δ), (m, m, k, k), for atoms (m, c, k, k) and |δ| < k/2."""
    return conv2d(atoms, atoms, padding=atoms.shape[-1] // 2)


def squared_norm(atoms: Tensor) -> Tensor:
    """‖D‖² of the convolution: the largest gain over the frequencies of a 32 × 32 torus."""
    spectra = torch.fft.rfft2(atoms, s=(32, 32))  # (m, c, 32, 17)
    matrices = spectra.permute(2, 3, 0, 1)
    gains: Tensor = torch.linalg.matrix_norm(matrices, ord=2)
    return gains.square().max()
