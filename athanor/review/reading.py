"""Parser of the output of `pulumi preview --json`: a digest, or a stream of events.

Source of both formats: pulumi/pulumi v3.232.0, `PreviewDigest` in pkg/display/json.go and `EngineEvent` in
sdk/go/common/apitype/events.go. The digest leaves policies out. The events, which the engine writes if
PULUMI_ENABLE_STREAMING_JSON_PREVIEW is true, have them; in all else both say the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from athanor.review.preview import Diagnostic, Finding, Preview, State, Step, urn_stack
from athanor.review.tolerant import as_list, as_mapping, as_text, at, is_mapping

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class _Spelling:
    """Names of the same things in one of the two formats."""

    old: str
    new: str
    reasons: str
    kind: str
    leaves_out_false: bool


_DIGEST = _Spelling(old="oldState", new="newState", reasons="replaceReasons", kind="kind", leaves_out_false=False)
_EVENT = _Spelling(old="old", new="new", reasons="keys", kind="diffKind", leaves_out_false=True)
_REFRESHED = {"update", "delete"}
"""Operation of a refresh's step once the provider has answered."""


def read_preview(text: str, stack: str = "") -> Preview:
    """Return a preview from the engine's output; lines before and after its JSON are ignored.

    Output without any JSON, as of an engine that failed early, is a failed preview.

    Args:
        text: the engine's standard output.
        stack: the stack's name; by default, that of the resources' URNs.
    """
    documents = _documents(text)
    if not documents:
        return _unreadable(text, stack)
    events = [document for document in documents if _is_event(document)]
    preview = _from_events(events) if events else _from_digest(documents[0])
    name = stack or next((urn_stack(step.urn) for step in preview.steps if urn_stack(step.urn)), "")
    return replace(preview, stack=name)


def _documents(text: str) -> list[dict[str, object]]:
    decoder, documents, position = json.JSONDecoder(), list[dict[str, object]](), 0
    while (position := _next_object(text, position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        documents.append(as_mapping(value))
    return documents


def _next_object(text: str, position: int) -> int:
    """Return where the next line begins that may be an object; -1 if there is none."""
    if position == 0 and text.startswith("{"):
        return 0
    line = text.find("\n{", max(position - 1, 0))
    return line + 1 if line >= 0 else -1


def _unreadable(text: str, stack: str) -> Preview:
    said = text.strip()
    message = "the preview is not JSON as `pulumi preview --json` writes it"
    whole = f"{message}. It begins with: {said[:200]}" if said else f"{message}: it is empty"
    return Preview(stack=stack, diagnostics=(Diagnostic(severity="error", message=whole),))


def _is_event(document: dict[str, object]) -> bool:
    return "sequence" in document or any(key.endswith("Event") for key in document)


def _from_digest(document: dict[str, object]) -> Preview:
    return Preview(
        stack="",
        steps=tuple(_step(as_mapping(step), _DIGEST) for step in as_list(document.get("steps"))),
        diagnostics=tuple(_diagnostic(as_mapping(said)) for said in as_list(document.get("diagnostics"))),
        config=_config(document.get("config")),
    )


def _from_events(events: Sequence[dict[str, object]]) -> Preview:
    steps: dict[int, Step] = {}
    refreshes: dict[str, int] = {}
    for number, event in enumerate(events):
        if before := as_mapping(at(event, "resourcePreEvent", "metadata")):
            steps[number] = _step(before, _EVENT)
            if steps[number].operation == "refresh":
                refreshes[steps[number].urn] = number
        after = as_mapping(at(event, "resOutputsEvent", "metadata"))
        if as_text(after.get("op")) in _REFRESHED and (place := refreshes.get(as_text(after.get("urn")))) is not None:
            steps[place] = replace(_step(after, _EVENT), refreshed=True)
    return Preview(
        stack="",
        steps=tuple(steps[number] for number in sorted(steps)),
        diagnostics=tuple(
            _diagnostic(said)
            for event in events
            if (said := as_mapping(event.get("diagnosticEvent"))) and not said.get("ephemeral")
        ),
        findings=tuple(
            _finding(policy_event) for event in events if (policy_event := as_mapping(event.get("policyEvent")))
        ),
        config=next((config for config in map(_prelude, events) if config), dict[str, str]()),
    )


def _prelude(event: dict[str, object]) -> dict[str, str]:
    return _config(at(event, "preludeEvent", "config"))


def _config(value: object) -> dict[str, str]:
    return {key: text for key, text in as_mapping(value).items() if isinstance(text, str)}


def _step(step: dict[str, object], spelling: _Spelling) -> Step:
    detailed = as_mapping(step.get("detailedDiff"))
    return Step(
        operation=as_text(step.get("op")),
        urn=as_text(step.get("urn")),
        old=_state(step.get(spelling.old), spelling),
        new=_state(step.get(spelling.new), spelling),
        replace_reasons=_texts(step.get(spelling.reasons)),
        changed_paths={path: as_text(at(kind, spelling.kind)) for path, kind in detailed.items()},
    )


def _state(value: object, spelling: _Spelling) -> State | None:
    if not is_mapping(value):
        return None
    return State(
        inputs=as_mapping(value.get("inputs")),
        outputs=as_mapping(value.get("outputs")),
        parent=as_text(value.get("parent")),
        custom=value.get("custom", not spelling.leaves_out_false) is True,
        retained=value.get("retainOnDelete") is True,
        leftover=value.get("delete") is True,
    )


def _diagnostic(said: dict[str, object]) -> Diagnostic:
    return Diagnostic(
        severity=_severity(as_text(said.get("severity"))),
        message=(as_text(said.get("prefix")) + as_text(said.get("message"))).strip(),
        urn=as_text(said.get("urn")),
    )


def _severity(word: str) -> str:
    # The events call standard error of the program so; the digest calls both info.
    return "info" if word == "info#err" else word


def _finding(fields: dict[str, object]) -> Finding:
    return Finding(
        pack=as_text(fields.get("policyPackName")),
        policy=as_text(fields.get("policyName")),
        enforcement=as_text(fields.get("enforcementLevel")),
        message=as_text(fields.get("message")).strip(),
        urn=as_text(fields.get("resourceUrn")),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in as_list(value) if isinstance(text, str))
