"""Values of properties, safe to display: secrets masked, unknowns marked, JSON texts parsed.

Marks of the engine: sdk/go/common/resource/sig/sig.go and plugin/rpc.go next to it, of pulumi/pulumi v3.232.0.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from athanor.review.tolerant import as_mapping, as_text, is_list, is_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MARK = "4dabf18193072939515e22adb298388d"
_HIDDEN = "1b47061264138c4ac30d75fd1eb44270"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_UNKNOWNS = {
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
    "030794c1-ac77-496b-92df-f27374a8bd58",
    "e48ece36-62e2-4504-bad9-02848725956a",
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
}
_DEFAULTS = "__defaults"
"""Names of inputs that the provider filled in, which the engine keeps next to them, at any depth."""
_BLINDED = "[secret]"
_SECRET_NAMES = re.compile(
    r"(passw(or)?d|passphrase|secret[_-]?key|key[_-]?secret|private[_-]?key(data)?|client[_-]?key([_-]?data)?|token"
    r"|kube[_-]?config|api[_-]?key|credentials?)$",
    re.IGNORECASE,
)
_SECRET_MANIFEST = re.compile(r"^\s*(- )?kind:\s*['\"]?Secret\b", re.MULTILINE)
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_DEEPEST = 150
"""Levels of nesting that are compared; a CRD's schema has about 50."""
_SHORTEST_SECRET = 8
"""Characters of a secret that is also removed from other texts: shorter ones are words that occur anywhere."""


@dataclass(frozen=True)
class Hidden:
    """A value that is compared but never shown."""

    fingerprint: str = field(repr=False)
    display: str = _BLINDED


@dataclass(frozen=True)
class Unknown:
    """A value that the engine knows only after it has created something."""


@dataclass(frozen=True)
class Embedded:
    """A text that is JSON, such as a dashboard in a ConfigMap."""

    content: Value


Scalar = str | int | float | bool | None
Value = Scalar | list["Value"] | dict[str, "Value"] | Hidden | Unknown | Embedded


class Masker:
    """Turns the engine's data into values, and remembers what it hid, to remove that from every other text, too."""

    def __init__(self) -> None:
        self._hidden: set[str] = set()
        self._longest_first: list[str] = []

    def learn(self, *properties: Mapping[str, object], secret_manifest: bool = False) -> None:
        """Remember what is secret in a resource's inputs and outputs."""
        for raw in properties:
            self.value(raw, secret_manifest=secret_manifest)

    def value(self, raw: object, *, secret_manifest: bool = False) -> Value:
        """Return a value as it may be shown.

        Args:
            raw: data as the engine's JSON has it.
            secret_manifest: whether it is a Kubernetes Secret, whatever its `kind` says.
        """
        if secret_manifest:
            return self._secret_manifest(as_mapping(raw), 0)
        return self._value(raw, 0)

    def clean(self, text: str) -> str:
        """Return a text without anything that was hidden so far."""
        if len(self._longest_first) != len(self._hidden):
            self._longest_first = sorted(self._hidden, key=lambda secret: (-len(secret), secret))
        for hidden in self._longest_first:
            text = text.replace(hidden, _BLINDED)
        return text

    def _value(self, raw: object, depth: int) -> Value:
        if depth > _DEEPEST:
            return Hidden(_fingerprint(raw), "(nested too deeply)")
        if isinstance(raw, str):
            return self._text(raw, depth)
        if is_list(raw):
            return [self._value(each, depth + 1) for each in raw]
        if is_mapping(raw):
            return self._mapping(raw, depth)
        return raw if isinstance(raw, int | float | bool) else None

    def _text(self, text: str, depth: int) -> Value:
        if text in _UNKNOWNS:
            return Unknown()
        if text == _BLINDED:
            return Hidden(_BLINDED)
        if text[:1] in {"{", "["} and (parsed := _json(text)) is not None:
            return Embedded(self._value(parsed, depth + 1))
        return self._hide(text) if _SECRET_MANIFEST.search(text) else text

    def _mapping(self, raw: dict[str, object], depth: int) -> Value:
        mark = raw.get(_MARK)
        if mark == _HIDDEN:
            return self._hide(raw)
        if mark == _OUTPUT:
            return self._output(raw, depth)
        if raw.get("kind") == "Secret" and raw.keys() & {"data", "stringData"}:
            return self._secret_manifest(raw, depth)
        if isinstance(raw.get("value"), str) and _SECRET_NAMES.search(as_text(raw.get("name"))):
            return {**self._entries({**raw, "value": ""}, depth), "value": self._hide(raw["value"])}
        return self._entries({key: each for key, each in raw.items() if key != _MARK}, depth)

    def _entries(self, raw: dict[str, object], depth: int) -> dict[str, Value]:
        return {key: self._entry(key, each, depth) for key, each in raw.items() if key != _DEFAULTS}

    def _entry(self, key: str, raw: object, depth: int) -> Value:
        if isinstance(raw, str) and raw and raw not in _UNKNOWNS and _SECRET_NAMES.search(key):
            return self._hide(raw)
        return self._value(raw, depth + 1)

    def _output(self, raw: dict[str, object], depth: int) -> Value:
        if raw.get("secret") is True:
            return self._hide(raw)
        return self._value(raw["value"], depth + 1) if "value" in raw else Unknown()

    def _secret_manifest(self, raw: dict[str, object], depth: int) -> dict[str, Value]:
        def hidden(content: object) -> Value:
            if is_mapping(content) and _MARK not in content:
                return {key: self._hide(each) for key, each in content.items()}
            return self._hide(content)

        visible = self._entries({key: each for key, each in raw.items() if key not in {"data", "stringData"}}, depth)
        metadata = visible.get("metadata")
        notes = metadata.get("annotations") if isinstance(metadata, dict) else None
        if isinstance(notes, dict) and _APPLIED in notes:
            original = as_mapping(as_mapping(raw["metadata"]).get("annotations"))[_APPLIED]
            notes[_APPLIED] = self._hide(original)
        return {**visible, **{key: hidden(raw[key]) for key in ("data", "stringData") if key in raw}}

    def _hide(self, raw: object) -> Hidden | Unknown:
        if isinstance(raw, str) and raw in _UNKNOWNS:
            return Unknown()
        self._hidden.update(part for text in _texts(raw) for part in _parts(text))
        return Hidden(_fingerprint(raw))


def _texts(raw: object, depth: int = 0) -> Iterator[str]:
    if isinstance(raw, str):
        yield raw
    if depth > _DEEPEST:
        return
    if is_list(raw):
        for each in raw:
            yield from _texts(each, depth + 1)
    if is_mapping(raw):
        for key, each in raw.items():
            if key != _MARK:
                yield from _texts(each, depth + 1)


def _parts(text: str) -> Iterator[str]:
    """Yield a secret in the forms in which a message may quote it: whole, by line, decoded, what is inside of JSON."""
    for written in (text, _decoded(text)):
        lines = () if _SECRET_MANIFEST.search(written) else written.splitlines()
        for part in (written, *lines, *_contents(written)):
            # Also as JSON and repr write it.
            for spelled in (part.strip(), json.dumps(part.strip())[1:-1], repr(part.strip())[1:-1]):
                if len(spelled) >= _SHORTEST_SECRET and spelled != _BLINDED and spelled not in _UNKNOWNS:
                    yield spelled


def _contents(text: str) -> Iterator[str]:
    """Yield the texts that a text of JSON contains, or the manifest of a Secret as YAML."""
    if text[:1] in {"{", "[", '"'}:
        yield from _texts(_parsed(text))
    elif _SECRET_MANIFEST.search(text):
        for document in _documents(text):
            for key in ("data", "stringData"):
                for value in _texts(as_mapping(document).get(key)):
                    yield from (value, _decoded(value))


def _documents(text: str) -> list[object]:
    try:
        return [*yaml.safe_load_all(text)]
    except (yaml.YAMLError, ValueError, RecursionError):
        return []


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _json(text: str) -> dict[str, object] | list[object] | None:
    parsed = _parsed(text)
    return parsed if is_mapping(parsed) or is_list(parsed) else None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _fingerprint(raw: object) -> str:
    try:
        return hashlib.sha256(json.dumps(raw, sort_keys=True).encode(errors="surrogatepass")).hexdigest()
    except RecursionError:
        return "nested too deeply"
