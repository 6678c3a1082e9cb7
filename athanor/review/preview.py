"""A preview as data: the engine's steps, its messages, and policy violations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

STACK_TYPE = "pulumi:pulumi:Stack"
"""Type of the resource that stands for the stack itself."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A resource before or after a step."""

    inputs: Mapping[str, object]
    outputs: Mapping[str, object]
    parent: str = ""
    """URN of its parent; "" where the engine names none."""
    custom: bool = True
    """Whether a provider manages it; components have no provider."""
    retained: bool = False
    """Whether deleting it only removes it from the state (`retainOnDelete`)."""
    leftover: bool = False
    """Whether it waits to be deleted since an earlier replacement."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the engine; a replacement has up to three."""

    operation: str
    """The engine's name, such as `create-replacement`."""
    urn: str
    old: State | None = None
    new: State | None = None
    replace_reasons: tuple[str, ...] = ()
    """Properties that make it a replacement."""
    changed_paths: Mapping[str, str] = field(default_factory=dict[str, str])
    """Paths that the provider names as changed, with their kind, such as `update-replace`."""
    refreshed: bool = False
    """Whether it is what a provider answered when it was asked for the resource as it is now."""


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """A message of the engine, the program or a provider."""

    severity: str
    """`info`, `warning` or `error`; another version of the engine may have more."""
    message: str
    urn: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A policy that a resource or the stack violates."""

    pack: str
    policy: str
    enforcement: str
    """`mandatory`, `advisory`, or the engine's other words for these."""
    message: str
    urn: str = ""

    @property
    def mandatory(self) -> bool:
        """Whether it stops an update."""
        return self.enforcement == "mandatory"


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Everything that one stack's preview says."""

    stack: str
    steps: tuple[Step, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    findings: tuple[Finding, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    """The stack's configuration by key, such as `athanor:prices`; objects are JSON, secrets are blinded."""

    @property
    def failed(self) -> bool:
        """Whether an error or a mandatory policy stopped it: its steps are then only some of the changes."""
        return any(said.severity == "error" for said in self.diagnostics) or any(
            finding.mandatory for finding in self.findings
        )


def urn_type(urn: str) -> str:
    """Return a URN's type token, without those of its parents (urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME)."""
    parts = urn.split("::", 3)
    return parts[2].rpartition("$")[2] if len(parts) == 4 else ""


def urn_types(urn: str) -> tuple[str, ...]:
    """Return the type tokens of a URN, from the outermost parent to the resource itself."""
    parts = urn.split("::", 3)
    return tuple(parts[2].split("$")) if len(parts) == 4 else ()


def urn_name(urn: str) -> str:
    """Return a URN's logical name; the whole text where it is not a URN."""
    parts = urn.split("::", 3)
    return parts[3] if len(parts) == 4 else urn


def urn_stack(urn: str) -> str:
    """Return a URN's stack; "" where it is not a URN."""
    head = urn.split("::", 1)[0]
    return head.removeprefix("urn:pulumi:") if head.startswith("urn:pulumi:") else ""
