"""What every record is: frozen, without fields that nobody declared, and JSON in one spelling."""

import json
from typing import ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)


class Record(BaseModel):
    """A frozen pydantic model that refuses misspelt fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def canonical_json(self) -> str:
        """Return JSON with sorted keys and no white space: equal records give equal bytes."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


class SparseRecord(Record):
    """A record whose `SPARSE` fields are left out where they have their defaults.

    So scenarios keep the id that they had before there was a choice.
    """

    SPARSE: ClassVar[tuple[str, ...]]

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        fields: dict[str, JsonValue] = handler(self)
        for name in self.SPARSE:
            if getattr(self, name) == self.__pydantic_fields__[name].default:
                fields.pop(name, None)
        return fields
