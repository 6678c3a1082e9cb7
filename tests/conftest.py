"""What the tests of every level share; each fixture lives in the module that is named after what it gives."""

from __future__ import annotations

pytest_plugins = ["tests.fixtures.recorded_stack"]
