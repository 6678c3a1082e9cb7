"""What a recorded program declares, as the rules see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.resources import Resource
from policies.values import Unknown, Value
from tests.recording_engine import Recording, Secret
from tests.recording_engine import Unknown as RecordedUnknown

if TYPE_CHECKING:
    from tests.recording_engine import Registration


def resources(recording: Recording) -> list[Resource]:
    return [_resource(registration) for registration in recording.resources.values()]


def _resource(registration: Registration) -> Resource:
    properties = {key: _value(item, (key,)) for key, item in registration.inputs.items()}
    return Resource(
        type=registration.type,
        name=registration.name,
        urn=registration.urn,
        protect=registration.protect,
        properties=properties,
    )


def _value(value: Any, path: tuple[str, ...]) -> Value:
    if isinstance(value, Secret):  # the engine hands policies the value of a secret
        return _value(value.value, path)
    if isinstance(value, RecordedUnknown):
        return Unknown(path)
    if isinstance(value, dict):
        return {key: _value(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_value(item, (*path, str(place))) for place, item in enumerate(value)]
    return value
