import json

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator

from fwnet import FWNet
from fwnet.coding.estimator_files import METADATA_KEY, EstimatorFileMixin
from fwnet.models import ModelFileError, write_weights


class Anything(EstimatorFileMixin, BaseEstimator):
    """Holds whatever it is given, as a parameter and as something fitted."""

    def __init__(self, given=None, p=1.5, name="auto"):
        self.given = given
        self.p = p
        self.name = name

    def fit(self, value):
        self.value_ = value
        self.n_iter_ = 3
        self._hidden = np.arange(3)
        return self


class Other(Anything):
    pass


def there_and_back(tmp_path, estimator):
    path = tmp_path / "estimator.safetensors"
    estimator.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    return type(estimator).load(path)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        7,
        2.5,
        float("inf"),
        "word",
        [1, [2.0, "three"], None],
        (1, (2, 3)),
        {"a": 1, "array": "not one", "tuple": [1]},
        {},
        [],
    ],
)
def test_plain_values_come_back_as_they_were(tmp_path, value):
    loaded = there_and_back(tmp_path, Anything(value, p=np.float64(1.25)).fit(value))
    assert loaded.given == value
    assert loaded.value_ == value
    assert type(loaded.value_) is type(value)
    assert (loaded.p, loaded.name, loaded.n_iter_) == (1.25, "auto", 3)
    np.testing.assert_array_equal(loaded._hidden, np.arange(3))


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 3), np.float32),
        np.arange(6.0).reshape(2, 3).T,
        np.array([True, False]),
        np.array([1, 2, 3]),
        np.array(["cat", "dog"]),
        np.array(["a", "b"], dtype=object),
        np.empty((0, 4)),
    ],
)
def test_arrays_keep_their_values_shapes_and_dtypes(tmp_path, array):
    array.flags.writeable = False
    loaded = there_and_back(tmp_path, Anything(array).fit([array, {"twice": array}]))
    for copy in (loaded.given, loaded.value_[0], loaded.value_[1]["twice"]):
        assert copy.dtype == array.dtype
        np.testing.assert_array_equal(copy, array)


def test_tensors_and_networks(tmp_path):
    tensor = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    network = FWNet(4, 6, num_layers=2, p=1.7).double()
    loaded = there_and_back(tmp_path, Anything(tensor).fit(network))
    assert torch.equal(loaded.given, tensor)
    x = torch.randn(5, 4, dtype=torch.float64)
    assert torch.equal(loaded.value_(x), network(x))
    assert not loaded.value_.training


def test_not_fitted_is_saved_too(tmp_path):
    loaded = there_and_back(tmp_path, Anything(p=2.0))
    assert loaded.p == 2.0
    assert not hasattr(loaded, "value_")


def test_what_cannot_be_saved_is_named(tmp_path):
    path = tmp_path / "estimator.safetensors"
    with pytest.raises(TypeError, match=r"parameters\.given must be a number, .* got function"):
        Anything(there_and_back).save(path)
    with pytest.raises(TypeError, match=r"fitted\.value_\.1 must be .* got RandomState"):
        Anything().fit([1, np.random.RandomState(0)]).save(path)
    with pytest.raises(TypeError, match=r"fitted\.value_ must be .* got ndarray"):
        Anything().fit(np.array([object()])).save(path)
    assert not path.exists()


def test_files_of_others_are_refused(tmp_path):
    path = tmp_path / "file.safetensors"
    with pytest.raises(ModelFileError, match="does not exist"):
        Anything.load(path)
    FWNet(4, 6, num_layers=2).save(path)
    with pytest.raises(ModelFileError, match=r"expected a file that Anything\.save wrote"):
        Anything.load(path)
    Other().save(path)
    with pytest.raises(ModelFileError, match="must hold a Anything, got a Other"):
        Anything.load(path)


@pytest.mark.parametrize(
    ("parameters", "fitted", "message"),
    [
        ({"nosuch": 1}, {}, "unexpected keyword argument 'nosuch'"),
        ({"given": {"array": "missing"}}, {}, "missing"),
        ({"given": {}}, {}, "array"),
        ({}, {"fit": 1}, "'fit', which is no fitted attribute"),
        ({}, {"__class__": "str"}, "'__class__', which is no fitted attribute"),
        ({}, [1], "cannot be loaded"),
    ],
)
def test_files_that_make_no_sense_are_refused(tmp_path, parameters, fitted, message):
    path = tmp_path / "file.safetensors"
    about = {"estimator": "Anything", "parameters": parameters, "fitted": fitted}
    write_weights(path, {}, {METADATA_KEY: json.dumps(about)})
    with pytest.raises(ModelFileError, match=message):
        Anything.load(path)
