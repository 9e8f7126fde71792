"""Code whole data sets: scikit-learn estimators, files of rows, networks trained on pairs."""

from fwnet.coding.array_files import EncodeError
from fwnet.coding.ball_search import learn_ball
from fwnet.coding.dictionary_learning import LearningProgress, LpDictionaryLearning
from fwnet.coding.encode import EncodeReport, encode_file
from fwnet.coding.encode_folder import encode_folder
from fwnet.coding.fwnet_classifier import FWNetClassifier
from fwnet.coding.fwnet_coder import FWNetCoder
from fwnet.coding.learned_ball import LearnedBall, UnidentifiedWarning
from fwnet.coding.lp_coder import LpCoder
from fwnet.coding.structured_codes import structured_codes
from fwnet.coding.train_coder import CoderReport, train_coder

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
