"""Rules about secrets in places where everybody who may read an object can read them."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from policies.resources import containers
from policies.rule import Finding, Rule, RuleConfig, message
from policies.secret_values import (
    argument_has_secret,
    binary_has_secret,
    file_has_secret,
    is_secret,
    line_has_secret,
)
from policies.values import Unknown, each, entries, label, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.resources import Resource

_FIX = "put it into a Secret and refer to that"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")


def _config_maps(config_map: Resource, _: RuleConfig) -> Iterator[Finding]:
    if config_map.kind != "ConfigMap":
        return
    for key, text in entries(read(config_map.properties, "data")).items():
        if isinstance(text, Unknown):
            yield text
        elif file_has_secret(key, label(text, "")):
            # The value is the secret: no message may quote it.
            yield message(f"data[{key}]", "…", "looks like a secret, and ConfigMaps are not secret", _FIX)
    for key, text in entries(read(config_map.properties, "binaryData")).items():
        if binary_has_secret(label(text, "")):
            yield message(f"binaryData[{key}]", "…", "looks like a secret, and ConfigMaps are not secret", _FIX)


def _environment(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        for variable in each(read(container.value, "env")):
            name, text = label(read(variable, "name")), read(variable, "value")
            if isinstance(text, Unknown):
                yield text
            elif is_secret(name, label(text, "")) or line_has_secret(label(text, "")):
                field = f"container {container.name}: env[{name}]"
                yield message(field, "…", "looks like a secret, and everybody who may list pods reads it", _FIX)


def _arguments(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        lines = {key: each(read(container.value, key)) for key in ("command", "args")}
        for where in (*((probe, "exec") for probe in _PROBES), *(("lifecycle", hook, "exec") for hook in _HOOKS)):
            lines[".".join((*where, "command"))] = each(read(container.value, *where, "command"))
        for key, given in lines.items():
            places = [
                place
                for place, (text, following) in enumerate(zip_longest(given, given[1:]))
                if argument_has_secret(label(text, ""), label(following, ""))
            ]
            if not places and line_has_secret(" ".join(label(text, "") for text in given)):
                places = [0]
            yield from (text for text in given if isinstance(text, Unknown))
            for place in places:
                field = f"container {container.name}: {key}[{place}]"
                yield message(field, "…", "contains a secret, which every process of the node reads", _FIX)


RULES = (
    Rule(
        name="no-secrets-in-config-maps",
        demand="ConfigMaps hold no secrets.",
        severity="critical",
        config=RuleConfig,
        check=_config_maps,
    ),
    Rule(
        name="no-secrets-in-environment",
        demand="Environment variables refer to Secrets instead of holding them.",
        severity="critical",
        config=RuleConfig,
        check=_environment,
    ),
    Rule(
        name="no-secrets-in-arguments",
        demand="Command lines hold no secrets.",
        severity="critical",
        config=RuleConfig,
        check=_arguments,
    ),
)
