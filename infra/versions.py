"""Versions of what the platform deploys: the one table. tools/ builds the same ones; a test compares them."""

from __future__ import annotations

VOLCANO = "1.14.1"
