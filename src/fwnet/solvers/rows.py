"""The state of a method, from which finished rows can be removed."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowState:
    """A dataclass of tensors with one entry per row, and of values that all rows share."""

    def select(self, rows: Tensor | slice) -> Self:
        """Return the state of the given rows."""
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                if isinstance(rows, Tensor) and rows.dtype != torch.bool:
                    changes[field.name] = value.index_select(0, rows)  # faster than value[rows]
                else:
                    changes[field.name] = value[rows]
            elif hasattr(value, "select"):
                changes[field.name] = value.select(rows)
        return dataclasses.replace(self, **changes)

    def put(self, rows: Tensor, part: Self) -> Self:
        """Return a copy whose given rows are those of `part`; shared values stay."""
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changes[field.name] = value.index_put((rows,), getattr(part, field.name))
        return dataclasses.replace(self, **changes)
