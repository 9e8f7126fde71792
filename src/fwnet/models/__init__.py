"""Networks with a published name, in one registry."""

from fwnet.models.classifiers import CodeClassifier, FeedForward
from fwnet.models.coding_network import CodingNetwork
from fwnet.models.fwnet import MLP, FWNet
from fwnet.models.lcod import LCoD
from fwnet.models.lista import LISTA
from fwnet.models.model import MODELS, Model, create_model, load_model, restore_model
from fwnet.models.weight_files import ModelFileError, read_weights, write_weights

__all__ = [
    "LISTA",
    "MLP",
    "MODELS",
    "CodeClassifier",
    "CodingNetwork",
    "FWNet",
    "FeedForward",
    "LCoD",
    "Model",
    "ModelFileError",
    "create_model",
    "load_model",
    "read_weights",
    "restore_model",
    "write_weights",
]
