"""Errors of the engine. A module of its own, so that commands need not import the engine's SDK."""

from __future__ import annotations


class EngineError(Exception):
    """What the engine refused or could not do, in its own words or in those of the program."""
