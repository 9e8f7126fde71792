"""Code whole data sets: scikit-learn estimators, files of rows, networks trained on pairs.

Estimators are imported when first used: scikit-learn takes longer to import than torch, and every
process that codes files would wait for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fwnet.coding.ball_search import learn_ball
from fwnet.coding.encode_file import EncodeReport, encode_file
from fwnet.coding.encode_folder import encode_folder
from fwnet.coding.learned_ball import LearnedBall, UnidentifiedWarning
from fwnet.coding.row_files import EncodeError
from fwnet.coding.structured_codes import structured_codes
from fwnet.coding.train_coder import CoderReport, train_coder

if TYPE_CHECKING:
    from fwnet.coding.dictionary_learning import LearningProgress, LpDictionaryLearning
    from fwnet.coding.fwnet_classifier import FWNetClassifier
    from fwnet.coding.fwnet_coder import FWNetCoder
    from fwnet.coding.lp_coder import LpCoder

__all__ = [
    "CoderReport",
    "EncodeError",
    "EncodeReport",
    "FWNetClassifier",
    "FWNetCoder",
    "LearnedBall",
    "LearningProgress",
    "LpCoder",
    "LpDictionaryLearning",
    "UnidentifiedWarning",
    "encode_file",
    "encode_folder",
    "learn_ball",
    "structured_codes",
    "train_coder",
]

_ESTIMATORS = {  # name: its module
    "FWNetClassifier": "fwnet_classifier",
    "FWNetCoder": "fwnet_coder",
    "LearningProgress": "dictionary_learning",
    "LpCoder": "lp_coder",
    "LpDictionaryLearning": "dictionary_learning",
}


def __getattr__(name: str) -> Any:
    if name in _ESTIMATORS:
        return getattr(importlib.import_module(f"fwnet.coding.{_ESTIMATORS[name]}"), name)
    raise AttributeError(f"module 'fwnet.coding' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
