"""The type of a rule: a name, a demand, a configuration, and a function that finds violations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from infra.errors import RefusalError
from policies.exemptions import EXEMPTIONS
from policies.values import Unknown, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.resources import Resource

Severity = Literal["low", "medium", "high", "critical"]
Finding = str | Unknown
"""A violation as a message, or the value that decides and is not known before the update."""
StackFinding = tuple["Resource | None", Finding]
"""A finding with its resource; None if it concerns the whole stack."""


class Exempt(BaseModel):
    """An object that a rule leaves alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    object: str
    """Its kind and name, such as `DaemonSet gpu-system/dcgm-exporter` or `NodePool a10`."""
    reason: str = Field(min_length=10)
    """Reason of the exemption."""


class RuleConfig(BaseModel):
    """What an environment can configure about every rule; a rule with a configuration of its own inherits it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    exempt: tuple[Exempt, ...] = ()
    """Objects that the rule leaves alone, each with the reason."""


_C = TypeVar("_C", bound=RuleConfig)


@dataclass(frozen=True, kw_only=True)
class _AnyRule(Generic[_C]):
    name: str
    demand: str
    """One sentence: what must hold."""
    severity: Severity
    config: type[_C]

    def parse(self, given: dict[str, Any]) -> _C:
        """Check a configuration.

        Raises:
            ValidationError: it has keys or values that the rule does not know.
        """
        return self.config.model_validate(given)

    def leaves_alone(self, resource: Resource, config: RuleConfig) -> bool:
        """Whether a resource is exempt from this rule, by the pack's own table or by the configuration."""
        return resource.identity in EXEMPTIONS.get(self.name, {}) or any(
            resource.identity == exempt.object for exempt in config.exempt
        )


@dataclass(frozen=True, kw_only=True)
class Rule(_AnyRule[_C]):
    """A rule that one resource alone keeps or breaks."""

    check: Callable[[Resource, _C], Iterator[Finding]]

    def findings(self, resource: Resource, config: _C) -> list[Finding]:
        """Return everything about a resource that breaks the rule or cannot be decided yet."""
        return [] if self.leaves_alone(resource, config) else list(self.check(resource, config))


@dataclass(frozen=True, kw_only=True)
class StackRule(_AnyRule[_C]):
    """A rule about resources together."""

    check: Callable[[Sequence[Resource], _C], Iterator[StackFinding]]

    def findings(self, resources: Sequence[Resource], config: _C) -> list[StackFinding]:
        """Return everything about a stack that breaks the rule or cannot be decided yet."""
        return [
            (resource, finding)
            for resource, finding in self.check(resources, config)
            if resource is None or not self.leaves_alone(resource, config)
        ]


def message(field: str, given: object, allowed: str, fix: str) -> str:
    """Word a violation as the program words a refusal: what was given, what is allowed, what to write instead."""
    return str(RefusalError(field, given, allowed, fix))


def demand(value: Value, allowed: Callable[[Value], bool], text: str) -> Iterator[Finding]:
    """Yield a message unless a value is allowed, and the value itself while it is unknown."""
    if isinstance(value, Unknown):
        yield value
    elif not allowed(value):
        yield text
