"""Every model of the registry has a class of tests."""

from fwnet.models import MODELS
from tests.models import test_image_models, test_models, test_noise_level_net
from tests.models.conformance import ModelConformance


def test_every_model_is_tested():
    assert all([test_image_models, test_models, test_noise_level_net])  # which define the classes
    tested = {c.model for c in all_subclasses(ModelConformance)}
    assert tested >= set(MODELS)


def all_subclasses(kind):
    return {c for child in kind.__subclasses__() for c in (child, *all_subclasses(child))}
