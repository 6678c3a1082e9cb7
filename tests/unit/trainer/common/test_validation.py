from __future__ import annotations

from tests.tables import each_row
from trainer.common.validation import changed_settings


@each_row(
    ("saved", "current", "changed"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, ""),
        ({"a": 1, "b": 2}, {"a": 3, "b": "2"}, "a=3 (was 1), b='2' (was 2)"),
        ({"model": "x", "width": 4}, {"model": "y", "depth": 2}, "model='y' (was 'x')"),
        ({"model": "x", "width": 4}, {"model": "x", "depth": 2}, "depth=2 (was unknown), width is unknown now (was 4)"),
    ],
)
def test_changed_settings_are_named_with_both_values(saved, current, changed):
    assert changed_settings(saved, current) == changed
