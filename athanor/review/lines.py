"""Values and differences as lines of a block of code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from athanor.review.text import printable, shortened
from athanor.review.values import Embedded, Hidden, Masker, Unknown, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.review.differences import Difference

LONGEST_VALUE = 160
"""Characters of a value that are shown."""
_LONGEST_PATH = 160
MOST_LINES = 60
"""Differences of one resource that are shown."""
_BEFORE_DIFFERENCE = 24
"""Characters that are shown in front of the place where two long texts begin to differ."""


def difference_lines(differences: Sequence[Difference], masker: Masker) -> list[str]:
    """Return differences as lines for a block of `diff`: removed is red, added green, changed orange on GitHub."""
    listed = [each for each in differences if each.kind not in {"later", "follows"}]
    lines = [_line(each, masker) for each in listed[:MOST_LINES]]
    left = len(listed) - len(lines)
    if left:
        lines.append(f"  … and {left:,} more differences")
    following = len([each for each in differences if each.kind == "follows"])
    if following:
        lines.append(f"  … and its new name in {following:,} other place{'s' if following > 1 else ''}")
    later = [each.path for each in differences if each.kind == "later"]
    if later:
        lines.append("  computed later: " + _path(", ".join(path or "all" for path in later), masker))
    return lines


def _line(difference: Difference, masker: Masker) -> str:
    path = _path(difference.path, masker) or "(all)"
    match difference.kind:
        case "added":
            return f"+ {path}: {displayed(difference.new, masker)}"
        case "removed":
            return f"- {path}: {displayed(difference.old, masker)}"
        case "reordered":
            return f"! {path}: the same elements in another order"
        case "unseen":
            return f"! {path}: changes; the values are secret or not in the preview"
        case _:
            old, new = _apart(difference.old, difference.new, masker)
            return f"! {path}: {old} → {new}"


def _path(path: str, masker: Masker) -> str:
    return shortened(printable(masker.clean(path)), _LONGEST_PATH)


def displayed(value: Value, masker: Masker) -> str:
    """Return a value in one line: JSON, with secrets and unknowns by name."""
    return shortened(printable(_whole(value, masker)), LONGEST_VALUE)


def _whole(value: Value, masker: Masker) -> str:
    match value:
        case Hidden():
            return value.display
        case Unknown():
            return "computed later"
        case None:
            return "nothing"
        case _:
            return masker.clean(json.dumps(_plain(value, masker), ensure_ascii=False))


def _plain(value: Value, masker: Masker) -> object:
    plain: object = value
    match value:
        case Hidden():
            plain = value.display
        case Unknown():
            plain = "computed later"
        case Embedded():
            plain = _plain(value.content, masker)
        case list():
            plain = [_plain(each, masker) for each in value]
        case dict():
            plain = {key: _plain(each, masker) for key, each in value.items()}
        case str():
            plain = masker.clean(value)
        case _:
            pass
    return plain


def _apart(old: Value, new: Value, masker: Masker) -> tuple[str, str]:
    """Return two values so that long texts show where they differ."""
    before, after = printable(_whole(old, masker)), printable(_whole(new, masker))
    same = next((place for place, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    if max(len(before), len(after)) > LONGEST_VALUE and same > _BEFORE_DIFFERENCE:
        start = same - _BEFORE_DIFFERENCE
        before, after = f"…{before[start:]}", f"…{after[start:]}"
    return shortened(before, LONGEST_VALUE), shortened(after, LONGEST_VALUE)
