"""Models as the Hugging Face Hub keeps them (extra `hub`): `Model.save_pretrained` and the like."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelHubMixin, hf_hub_download
from huggingface_hub.constants import SAFETENSORS_SINGLE_FILE

from fwnet.models.model import Model, load_model

CARD = """---
{{ card_data }}
---

A model of fwnet, Lp-norm constrained coding in PyTorch.

```python
import fwnet

model = fwnet.models.Model.from_pretrained("FOLDER or OWNER/NAME")
```

The file model.safetensors holds numbers and texts alone; nothing in it is executed.
"""


class HubModel(ModelHubMixin, library_name="fwnet", tags=["frank-wolfe"], model_card_template=CARD):
    """A model with the hub's methods: a folder with model.safetensors, config.json and a card.

    Args:
        network: The model.
        notes: What else its file should say; see `Model.save`.
    """

    def __init__(self, network: Model, notes: Mapping[str, Any] | None = None) -> None:
        self.network, self.notes = network, notes
        # Read by people and by the hub; model.safetensors has all that is needed to load it.
        self._hub_mixin_config = {"model": type(network).__name__, **network.config}

    def _save_pretrained(self, save_directory: Path) -> None:
        self.network.save(save_directory / SAFETENSORS_SINGLE_FILE, self.notes)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> Self:
        if Path(model_id).is_dir():
            return cls(load_model(Path(model_id) / SAFETENSORS_SINGLE_FILE))
        return cls(load_model(hf_hub_download(model_id, SAFETENSORS_SINGLE_FILE, **options)))
