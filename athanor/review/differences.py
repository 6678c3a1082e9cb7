"""Differences between two values, by path, ignoring the order of lists that have none."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from athanor.review.values import Embedded, Unknown, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Kind = Literal["added", "removed", "changed", "reordered", "ends", "later", "follows", "unseen"]
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_IDENTITIES = ("name", "key", "id", "mountPath", "containerPort", "port", "topologyKey", "alert", "record", "title")
"""Fields by which the elements of a list are the same one, before and after, in this order of preference."""
_UNORDERED = frozenset({
    "accessModes", "apiGroups", "drop", "finalizers", "imagePullSecrets", "ipRanges", "resourceNames", "resources",
    "securityGroupIds", "subjects", "taints", "tolerations", "verbs", "vswitchIds", "zoneIds", "zones",
})  # fmt: skip
"""Lists whose order means nothing to Kubernetes or Alibaba Cloud. The order of any other may mean something."""
_MOST_PAIRS = 1_000_000
"""Pairs of elements up to which lists are aligned; longer ones are compared as sets."""
_LONGEST_TEXT = 200_000
"""Characters up to which two texts are compared line by line."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference. `old` and `new` are None where there is nothing.

    `ends`: of a text, only the ends of lines. `later`: the new value is not known yet. `follows`: the only difference
    is the object's own new name in it. `unseen`: the provider names it, and the preview has no values of it that
    differ, as with secrets.
    """

    path: str
    kind: Kind
    old: Value = None
    new: Value = None


def differences(old: Value, new: Value) -> list[Difference]:
    """Return the differences between two values, sorted by path."""
    return sorted(_compare(old, new, ""), key=lambda difference: (difference.path, difference.kind))


def after_a_rename(differences: Sequence[Difference], path: str) -> list[Difference]:
    """Mark the differences that are nothing but a new name, which is at a path, in place of the old one."""
    name = next((each for each in differences if each.path == path), Difference(path=path, kind="later"))
    old, new = name.old, name.new
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        return list(differences)
    return [each if each is name else _following(each, old, new) for each in differences]


def _following(difference: Difference, old_name: str, new_name: str) -> Difference:
    renamed = difference.old.replace(old_name, new_name) if isinstance(difference.old, str) else None
    return replace(difference, kind="follows") if renamed is not None and renamed == difference.new else difference


def _compare(old: Value, new: Value, path: str) -> Iterator[Difference]:
    if isinstance(new, Unknown):
        if not isinstance(old, Unknown):
            yield Difference(path=path, kind="later")
    elif isinstance(old, Embedded) and isinstance(new, Embedded):
        yield from _compare(old.content, new.content, f"{path}:" if path else "")
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from _mappings(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _lists(old, new, path)
    elif isinstance(old, str) and isinstance(new, str) and "\n" in old and "\n" in new:
        yield from _texts(old, new, path)
    elif not _equal(old, new):
        yield Difference(path=path, kind="changed", old=old, new=new)


def _equal(old: Value, new: Value) -> bool:
    # In Python True == 1; in a property these are two values.
    return old == new and isinstance(old, bool) == isinstance(new, bool)


def _mappings(old: dict[str, Value], new: dict[str, Value], path: str) -> Iterator[Difference]:
    for key in sorted(old.keys() | new.keys()):
        yield from _members(old, new, key, _joined(path, key))


def _members(old: dict[str, Value], new: dict[str, Value], key: str, path: str) -> Iterator[Difference]:
    if key not in new:
        yield from _one_sided(old[key], path, "removed")
    elif key not in old:
        yield from _one_sided(new[key], path, "added")
    else:
        yield from _compare(old[key], new[key], path)


def _one_sided(value: Value, path: str, kind: Literal["added", "removed"]) -> Iterator[Difference]:
    if value is None:
        return
    if isinstance(value, Unknown):
        yield Difference(path=path, kind="later")
    elif kind == "added":
        yield Difference(path=path, kind=kind, new=value)
    else:
        yield Difference(path=path, kind=kind, old=value)


def _joined(path: str, key: str) -> str:
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}" if path and not path.endswith(":") else f"{path}{key}"
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def _lists(old: list[Value], new: list[Value], path: str) -> Iterator[Difference]:
    by_identity = _by_identity(old, new)
    if by_identity:
        before, after = by_identity
        for name in sorted(before.keys() | after.keys()):
            yield from _members(before, after, name, f"{path}[{name}]")
        common_before = [name for name in before if name in after]
        common_after = [name for name in after if name in before]
        if common_before != common_after and not _has_no_order(path):
            yield Difference(path=path, kind="reordered")
        return
    counts = Counter(map(_key, old)), Counter(map(_key, new))
    if counts[0] == counts[1]:
        if [*map(_key, old)] != [*map(_key, new)] and not _has_no_order(path):
            yield Difference(path=path, kind="reordered")
        return
    if _has_no_order(path) or len(old) * len(new) > _MOST_PAIRS:
        yield from _as_sets(old, new, path)
    else:
        yield from _aligned(old, new, path)


def _has_no_order(path: str) -> bool:
    return path.rpartition(".")[2].rpartition(":")[2] in _UNORDERED


def _by_identity(old: list[Value], new: list[Value]) -> tuple[dict[str, Value], dict[str, Value]] | None:
    for field in _IDENTITIES:
        before, after = _named(old, field), _named(new, field)
        if before is not None and after is not None and (before or after):
            return before, after
    return None


def _named(elements: list[Value], field: str) -> dict[str, Value] | None:
    by_name: dict[str, Value] = {}
    for element in elements:
        name = element.get(field) if isinstance(element, dict) else None
        if not isinstance(name, str | int) or isinstance(name, bool) or str(name) in by_name:
            return None
        by_name[str(name)] = element
    return by_name


def _as_sets(old: list[Value], new: list[Value], path: str) -> Iterator[Difference]:
    """Compare lists of values without a name: which ones went and which came, however often each."""
    gone, come = Counter(map(_key, old)), Counter(map(_key, new))
    gone, come = gone - come, come - gone
    for element in old:
        if gone[_key(element)] > 0:
            gone[_key(element)] -= 1
            yield from _one_sided(element, f"{path}[]", "removed")
    for element in new:
        if come[_key(element)] > 0:
            come[_key(element)] -= 1
            yield from _one_sided(element, f"{path}[]", "added")


def _aligned(old: list[Value], new: list[Value], path: str) -> Iterator[Difference]:
    """Compare lists whose order counts: what is the same stays out of it, also after something that was inserted."""
    matcher = difflib.SequenceMatcher(None, [*map(_key, old)], [*map(_key, new)], autojunk=False)
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag == "equal":
            continue
        pairs = min(last - first, new_last - new_first)
        for number in range(pairs):
            yield from _compare(old[first + number], new[new_first + number], f"{path}[{first + number}]")
        for number in range(first + pairs, last):
            yield from _one_sided(old[number], f"{path}[{number}]", "removed")
        for number in range(new_first + pairs, new_last):
            yield from _one_sided(new[number], f"{path}[{number}]", "added")


def _key(value: Value) -> str:
    # Hidden values differ by their fingerprint, which their repr leaves out.
    return f"{value!r}{getattr(value, 'fingerprint', '')}"


def _texts(old: str, new: str, path: str) -> Iterator[Difference]:
    """Compare texts of several lines, such as scripts and YAML, line by line."""
    if old == new:
        return
    if len(old) + len(new) > _LONGEST_TEXT:
        yield Difference(path=path, kind="changed", old=old, new=new)
        return
    before, after = old.splitlines(), new.splitlines()
    yield from _changed_lines(before, after, path)
    if before == after:  # only the ends of lines differ
        yield Difference(path=path, kind="ends")


def _changed_lines(before: Sequence[str], after: Sequence[str], path: str) -> Iterator[Difference]:
    matcher = difflib.SequenceMatcher(None, before, after)
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag == "equal":
            continue
        for number, line in enumerate(before[first:last], first + 1):
            yield Difference(path=f"{path}, line {number}", kind="removed", old=line)
        for number, line in enumerate(after[new_first:new_last], new_first + 1):
            yield Difference(path=f"{path}, new line {number}", kind="added", new=line)
