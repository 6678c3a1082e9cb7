"""Formatting of values and differences as lines of a code block."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeGuard

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
_MOST_TEXT_LINES = 12
"""Lines of a text that is added or removed as a whole."""
_WITHOUT_VALUES = {
    "reordered": "the same elements in another order",
    "ends": "only the ends of its lines",
    "unseen": "changes; the values are secret or not in the preview",
}
"""Text for each kind of difference that has no values."""
_BEFORE_DIFFERENCE = 24
"""Characters that are shown in front of the place where two long texts begin to differ."""


def difference_lines(differences: Sequence[Difference], masker: Masker) -> list[str]:
    """Return differences as lines for a block of `diff`: removed is red, added green, changed orange on GitHub."""
    listed = [each for each in differences if each.kind not in {"later", "follows"}]
    lines = [line for each in listed[:MOST_LINES] for line in _lines(each, masker)]
    left = max(len(listed) - MOST_LINES, 0)
    if left:
        lines.append(f"  … and {left:,} more differences")
    following = len([each for each in differences if each.kind == "follows"])
    if following:
        lines.append(f"  … and its new name in {following:,} other place{'s' if following > 1 else ''}")
    later = [each.path for each in differences if each.kind == "later"]
    if later:
        lines.append("  computed later: " + _path(", ".join(path or "all" for path in later), masker))
    return lines


def _lines(difference: Difference, masker: Masker) -> list[str]:
    path = _path(difference.path, masker) or "(all)"
    old, new = difference.old, difference.new
    if difference.kind in _WITHOUT_VALUES:
        return [f"! {path}: {_WITHOUT_VALUES[difference.kind]}"]
    if difference.kind == "added":
        return _one_sided(f"+ {path}:", new, masker)
    if difference.kind == "removed":
        return _one_sided(f"- {path}:", old, masker)
    if _is_text(old) is not _is_text(new):
        return [*_one_sided(f"- {path}:", old, masker), *_one_sided(f"+ {path}:", new, masker)]
    before, after = _apart(old, new, masker)
    return [f"! {path}: {before} → {after}"]


def _one_sided(head: str, value: Value, masker: Masker) -> list[str]:
    """Return a value in one line, or a text of several lines below its path."""
    if not _is_text(value):
        return [f"{head} {displayed(value, masker)}"]
    lines = masker.clean(value).splitlines()
    beginning = [f"{head[0]}   {shortened(printable(line), LONGEST_VALUE)}" for line in lines[:_MOST_TEXT_LINES]]
    left = len(lines) - len(beginning)
    return [head, *beginning, *([f"{head[0]}   … and {left:,} more lines"] if left else [])]


def _is_text(value: Value) -> TypeGuard[str]:
    """Whether a value is a text of several lines."""
    return isinstance(value, str) and "\n" in value.strip("\n")


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
