"""Secrets where everybody who may read an object reads them."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING

from policies.resources import containers
from policies.rule import Finding, Rule, RuleConfig, message
from policies.values import Unknown, each, entries, label, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.resources import Resource

_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|api[_-]?key"
    r"|access[_-]?key(?:[_-]?(?:id|secret))?|secret[_-]?key|private[_-]?key)$",
    re.IGNORECASE,
)
_TOKEN_OF_A_MODEL = re.compile(
    r"(?:^|[_.-])(?:bos|cls|end|eol|eos|eot|image|mask|pad|sep|start|stop|unk)[_-]?token$", re.IGNORECASE
)
"""Tokens of language models, such as EOS_TOKEN."""
_NO_SECRET = re.compile(
    r"\$.*"  # a reference, of Kubernetes, of a shell or of a template
    r"|(?:~|\.{1,2})?(?:/[\w.-]+)+/?"  # a path
    r"|true|false|none|null|<[^<>]*>|\[\w+\]",
    re.IGNORECASE | re.DOTALL,
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


_OPTION = re.compile(r"--?([\w.-]+)(?:=(.*))?", re.DOTALL)
_IN_A_SHELL = re.compile(
    r"""(?:^|[\s;&|(]|--)([A-Za-z][\w.-]*)=["']?([^\s"';&|)]+)|--([\w.-]+)\s+["']?([^\s"';&|)-][^\s"';&|)]*)"""
)
_SETTING = re.compile(r"""^\s*["']?([\w.-]+)["']?\s*[:=]\s*(["']?)([^\s"',;(){}]+)\2[,;]?\s*$""", re.MULTILINE)
_PART_OF_CODE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)*")


def _looks_secret(name: str, text: str) -> bool:
    """Whether a text is a secret, by itself or by its name; references to one and paths are none."""
    if _SECRET_TEXT.search(text):
        return True
    is_named_so = _SECRET_NAME.search(name) and not _TOKEN_OF_A_MODEL.search(name)
    return bool(text and is_named_so and not _NO_SECRET.fullmatch(text))


def _file_has_secret(text: str) -> bool:
    """Whether a line of a file sets a secret; words without quotes may be names of a program's variables."""
    return any(
        _looks_secret(name, value)
        for name, quote, value in _SETTING.findall(text)
        if quote or not _PART_OF_CODE.fullmatch(value)
    )


def _argument_has_secret(text: str, following: str) -> bool:
    """Whether an argument is a secret, by itself, by its name, or by the name and the argument that follows."""
    option = _OPTION.fullmatch(text)
    if option and not re.search(r"\s", text):
        value = option[2] if option[2] is not None else "" if following.startswith("-") else following
        return _looks_secret(option[1], value)
    assigned = ((name or option, value or given) for name, value, option, given in _IN_A_SHELL.findall(text))
    return bool(_SECRET_TEXT.search(text)) or any(_looks_secret(name, value) for name, value in assigned)


def _config_maps(config_map: Resource, _: RuleConfig) -> Iterator[Finding]:
    if config_map.kind != "ConfigMap":
        return
    for key, text in entries(read(config_map.properties, "data")).items():
        if isinstance(text, Unknown):
            yield text
        elif _looks_secret(key, label(text, "")) or _file_has_secret(label(text, "")):
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
            given = each(read(container.value, key))
            for place, (text, following) in enumerate(zip_longest(given, given[1:])):
                if isinstance(text, Unknown):
                    yield text
                elif _argument_has_secret(label(text, ""), label(following, "")):
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
