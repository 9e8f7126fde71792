"""What a method remembers of every row, in a form from which finished rows can leave."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

__all__ = ["RowState"]


@dataclass(frozen=True)
class RowState:
    """What a method remembers: tensors with one entry a row, and things that all rows share."""

    def select(self, rows: Tensor | slice) -> Self:
        """Keep the given rows only."""
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changes[field.name] = value[rows]
            elif hasattr(value, "select"):
                changes[field.name] = value.select(rows)
        return dataclasses.replace(self, **changes)
