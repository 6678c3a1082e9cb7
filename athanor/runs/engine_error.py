"""Errors of the engine. A module of its own, so that commands need not import the engine's SDK."""

from __future__ import annotations


class EngineError(Exception):
    """A refusal or failure of the engine, in its own words or in those of the program."""
