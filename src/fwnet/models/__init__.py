"""Published networks, all in one registry."""

from fwnet.models.classifiers import CodeClassifier
from fwnet.models.coding_network import CodingNetwork
from fwnet.models.conv_coding_networks import ConvFWNet, ConvLISTA
from fwnet.models.fwnet import MLP, FWNet
from fwnet.models.image_model import ImageModel
from fwnet.models.lcod import LCoD
from fwnet.models.lista import LISTA
from fwnet.models.model import (
    MODELS,
    Model,
    SignalModel,
    create_model,
    load_model,
    restore_model,
)
from fwnet.models.model_files import (
    ModelFileError,
    read_model,
    read_weights,
    write_model,
    write_weights,
)
from fwnet.models.noise_level_net import NoiseLevelNet
from fwnet.models.plain_networks import SRCNN, VDSR, DnCNN

__all__ = [
    "LISTA",
    "MLP",
    "MODELS",
    "SRCNN",
    "VDSR",
    "CodeClassifier",
    "CodingNetwork",
    "ConvFWNet",
    "ConvLISTA",
    "DnCNN",
    "FWNet",
    "ImageModel",
    "LCoD",
    "Model",
    "ModelFileError",
    "NoiseLevelNet",
    "SignalModel",
    "create_model",
    "load_model",
    "read_model",
    "read_weights",
    "restore_model",
    "write_model",
    "write_weights",
]
