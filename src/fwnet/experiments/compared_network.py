"""A network that experiments on images compare with others, trained by the recipe of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fwnet.experiments.experiment import Lab
from fwnet.restoration import Recipe

__all__ = ["SEEDS", "ComparedNetwork", "steps_per_epoch"]

SEEDS = (1, 2, 3)
QUICK_SETTINGS: dict[str, Any] = {
    "num_epochs": 1,
    "batch_size": 8,
    "average": 0.9,
    "precision": "float32",
    "compile": False,
}


@dataclass(frozen=True)
class ComparedNetwork:
    """One of the networks that are compared.

    Attributes:
        name: As in the table.
        model: The name of a model.
        options: Its arguments.
        family: The networks that share a learning rate: the name of the one that it is chosen with.
        recipe: What all networks of the task share.
    """

    name: str
    model: str
    options: dict[str, Any]
    family: str
    recipe: ClassVar[Recipe]

    def settings(
        self,
        lab: Lab,
        learning_rate: float,
        seed: int,
        num_epochs: int | None,
        others: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Of its training, by the names of `TrainingConfig`.

        others: Settings that are not those of the recipe.
        """
        config = {**self.recipe.networks.get(self.model, {}), **self.options}
        settings: dict[str, Any] = {
            **self.recipe.fixed_settings(self.model, config),
            "average": self.recipe.average,
            "precision": "bf16",
            "compile": True,
            "learning_rate": learning_rate,
            **(others or {}),
        }
        if seed:
            settings["seed"] = seed
        if num_epochs is not None:
            settings["num_epochs"] = num_epochs
        return settings | QUICK_SETTINGS if lab.quick else settings


def steps_per_epoch(lab: Lab) -> int:
    """How many batches make an epoch."""
    return 10 if lab.quick else 1000
