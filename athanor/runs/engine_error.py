"""What goes wrong in the engine. Apart from the engine's SDK, for commands that seldom need it."""

from __future__ import annotations


class EngineError(Exception):
    """What the engine refused or could not do, in its own words or in those of the program."""
