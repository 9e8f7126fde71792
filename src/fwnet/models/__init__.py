"""Networks with a published name, in one registry."""

from fwnet.models.classifiers import CodeClassifier
from fwnet.models.coding_network import CodingNetwork
from fwnet.models.conv_fwnet import ConvFWNet
from fwnet.models.conv_lista import ConvLISTA
from fwnet.models.dncnn import DnCNN
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
    read_model,
    restore_model,
    write_model,
)
from fwnet.models.srcnn import SRCNN
from fwnet.models.vdsr import VDSR
from fwnet.models.weight_files import ModelFileError, read_weights, write_weights

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
    "SignalModel",
    "create_model",
    "load_model",
    "read_model",
    "read_weights",
    "restore_model",
    "write_model",
    "write_weights",
]
