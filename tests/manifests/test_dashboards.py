"""Every dashboard as a file: what a change of one changes for people is its diff.

`UPDATE_GOLDEN=1 make test-fast` rewrites the files; `make dashboards` shows what they look like.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from infra.monitoring.dashboards import dashboards

GOLDEN = Path(__file__).parent / "golden-dashboards"


def test_dashboards_are_the_golden_ones():
    rendered = {
        f"{uid}.json": json.dumps(board, indent=1, sort_keys=True) + "\n" for uid, board in dashboards().items()
    }
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.mkdir(exist_ok=True)
        for name, text in rendered.items():
            (GOLDEN / name).write_text(text, encoding="utf-8")
    golden = {file.name: file.read_text(encoding="utf-8") for file in GOLDEN.iterdir()}
    assert sorted(rendered) == sorted(golden)
    for name, text in rendered.items():
        assert text == golden[name], f"{name} differs: if that is wanted, run UPDATE_GOLDEN=1 make test-fast"
