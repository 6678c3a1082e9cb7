"""The protocol's messages as JSON, with 64-bit integers as numbers.

protobuf's own mapping writes 64-bit integers as strings; Triton, and the protocol's REST form, write them as numbers.
"""

from __future__ import annotations

from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

_WIDE = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}


def to_json(message: Any) -> dict[str, Any]:  # noqa: ANN401  generated classes have no types
    """Return a message as a JSON object with the names of its .proto file, fields that are not set included."""
    document = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    _restore_numbers(document, message.DESCRIPTOR)
    return document


def _restore_numbers(document: dict[str, Any], descriptor: Any) -> None:  # noqa: ANN401  no types either
    for field in descriptor.fields:
        value: Any = document.get(field.name)
        if value is None:
            continue
        if field.cpp_type in _WIDE:
            document[field.name] = [int(item) for item in value] if isinstance(value, list) else int(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        elif field.message_type is not None:
            _restore_children(value, field.message_type)


def _restore_children(value: list[Any] | dict[str, Any], descriptor: Any) -> None:  # noqa: ANN401  no types either
    if isinstance(value, list):
        for item in value:
            _restore_numbers(item, descriptor)
    elif descriptor.GetOptions().map_entry:
        values = descriptor.fields_by_name["value"].message_type
        for item in value.values() if values else ():
            _restore_numbers(cast("dict[str, Any]", item), values)
    else:
        _restore_numbers(value, descriptor)
