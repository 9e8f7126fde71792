import json
import sys

import pytest
import torch

import fwnet

hub = pytest.importorskip("huggingface_hub", reason="needs the extra hub")
pytest.importorskip("jinja2", reason="needs the extra hub")


@pytest.fixture
def network():
    return fwnet.ConvFWNet(2, 4, p=1.3).eval()


def test_a_folder_holds_the_model_and_nothing_pickled(network, tmp_path):
    network.save_pretrained(tmp_path / "mine", notes={"task": "denoise", "sigma": 25})
    names = {path.name for path in (tmp_path / "mine").iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors"}
    config = json.loads((tmp_path / "mine" / "config.json").read_text())
    assert config["model"] == "ConvFWNet"
    assert config["num_layers"] == 2
    assert "library_name: fwnet" in (tmp_path / "mine" / "README.md").read_text()
    about, _ = fwnet.models.read_model(tmp_path / "mine" / "model.safetensors")
    assert about["notes"]["sigma"] == 25

    x = torch.rand(1, 1, 8, 9)
    for kind in (fwnet.ConvFWNet, fwnet.models.Model):
        loaded = kind.from_pretrained(tmp_path / "mine")
        assert torch.equal(loaded(x), network(x))
        assert not loaded.training


def test_a_model_of_another_class_is_refused(network, tmp_path):
    network.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="must hold a DnCNN, got a ConvFWNet"):
        fwnet.DnCNN.from_pretrained(tmp_path)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ValueError, match=r"model\.safetensors does not exist"):
        fwnet.ConvFWNet.from_pretrained(tmp_path)


def test_upload_and_download(network, tmp_path, monkeypatch):
    """The hub is a folder here; what goes there and comes back is real."""
    from fwnet.models import hub as ours

    class Api:
        def __init__(self, token=None):
            pass

        def create_repo(self, repo_id, **_):
            return type("Repository", (), {"repo_id": repo_id})

        def upload_folder(self, repo_id, folder_path, **_):
            target = tmp_path / repo_id
            target.mkdir(parents=True)
            for path in folder_path.iterdir():
                (target / path.name).write_bytes(path.read_bytes())
            return f"https://hub/{repo_id}"

    def download(repo_id, filename, **_):
        return str(tmp_path / repo_id / filename)

    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", Api)
    monkeypatch.setattr(ours, "hf_hub_download", download)
    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", download)
    assert network.push_to_hub("me/net") == "https://hub/me/net"
    x = torch.rand(1, 1, 8, 9)
    assert torch.equal(fwnet.ConvFWNet.from_pretrained("me/net")(x), network(x))


def test_without_the_package(network, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "fwnet.models.hub", raising=False)
    with pytest.raises(ImportError, match=r"need huggingface_hub: pip install '\.\[hub\]'"):
        network.save_pretrained(tmp_path)
