"""Reads the stack's configuration from the Pulumi engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pulumi
from pulumi.runtime import config as engine_config

from infra.settings.parse import parse_settings

if TYPE_CHECKING:
    from infra.settings.stack import Settings


def load_settings() -> Settings:
    """Return the current stack's settings.

    Raises:
        RefusalError: the configuration is wrong; the message lists every key with its value, limit and fix.
    """
    namespace = pulumi.get_project() + ":"
    everything = {**engine_config.get_config_env(), **engine_config.CONFIG.get()}
    raw = {
        key.removeprefix(namespace): _decode(str(value))
        for key, value in everything.items()
        if key.startswith(namespace)
    }
    return parse_settings(raw)


def _decode(value: str) -> object:
    """Objects and lists reach a program as JSON text; anything else is a plain string."""
    if not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
