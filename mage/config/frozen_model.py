"""The base of all sections of a config."""

from __future__ import annotations

from typing import get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError


class FrozenModel(BaseModel):
    """Base of all sections: immutable. Unknown keys, infinite numbers and truth values for numbers are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth_values(cls, value: object, info: ValidationInfo) -> object:
        kind = cls.model_fields[str(info.field_name)].annotation
        kinds = {kind, *(getattr(one, "__origin__", one) for one in get_args(kind))}
        if isinstance(value, bool) and bool not in kinds and {int, float} & kinds:  # pydantic takes true for 1
            raise PydanticCustomError("number", "allowed is a number")
        return value
