"""fwnet on a cluster (extra `ray`): callables for Ray Data, and the engine of `--engine ray`."""

try:
    import ray as _  # noqa: F401
except ImportError as error:
    raise ImportError("fwnet.ray needs Ray: pip install '.[ray]' in the clone") from error

from fwnet.ray.batches import Coder, Denoiser, Network, Upscaler
from fwnet.ray.engine import RayEngine

__all__ = ["Coder", "Denoiser", "Network", "RayEngine", "Upscaler"]
