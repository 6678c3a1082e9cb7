"""Secrets where everybody who may read an object reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.resources import containers
from policies.rule import Finding, Rule, RuleConfig, message
from policies.values import Unknown, each, entries, label, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.resources import Resource

_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:password|passwd|secret|token|credentials?|api[_-]?key|access[_-]?key(?:[_-]?(?:id|secret))?"
    r"|secret[_-]?key|private[_-]?key)$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"
    r"|\bLTAI[0-9A-Za-z]{12,}\b"  # access keys of Alibaba Cloud
    r"|\bAKIA[0-9A-Z]{16}\b"  # and of AWS
    r"|\bgh[pousr]_[0-9A-Za-z]{36}\b"  # tokens of GitHub
    r"|\bhf_[0-9A-Za-z]{30,}\b"  # and of Hugging Face
    r"|://[^\s/:@$]+:[^\s/:@$]+@"  # a password in a URL
)
_FIX = "put it into a Secret and refer to that"


def _looks_secret(name: str, text: str) -> bool:
    return bool(text) and bool(_SECRET_NAME.search(name) or _SECRET_TEXT.search(text))


def _config_maps(config_map: Resource, _: RuleConfig) -> Iterator[Finding]:
    if config_map.kind != "ConfigMap":
        return
    for key, text in entries(read(config_map.properties, "data")).items():
        if isinstance(text, Unknown):
            yield text
        elif _looks_secret(key, label(text, "")):
            # The value is the secret: no message may quote it.
            yield message(f"data[{key}]", "…", "looks like a secret, and ConfigMaps are not secret", _FIX)


def _environment(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        for variable in each(read(container.value, "env")):
            name, text = label(read(variable, "name")), read(variable, "value")
            if isinstance(text, Unknown):
                yield text
            elif _looks_secret(name, label(text, "")):
                field = f"container {container.name}: env[{name}]"
                yield message(field, "…", "looks like a secret, and everybody who may list pods reads it", _FIX)


def _arguments(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        for key in ("command", "args"):
            for place, text in enumerate(each(read(container.value, key))):
                if isinstance(text, Unknown):
                    yield text
                elif _SECRET_TEXT.search(label(text, "")):
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
