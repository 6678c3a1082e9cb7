"""Differences by path, and nothing else: no order without meaning, no unknowns, no copies of a name."""

from __future__ import annotations

import json
from typing import Any

from athanor.review.differences import Difference, after_a_rename, differences
from athanor.review.lines import difference_lines
from athanor.review.values import Masker
from tests.tables import each_row
from tests.unit.athanor.review.digests import UNKNOWN


def lines(old: Any, new: Any) -> list[str]:
    masker = Masker()
    return difference_lines(differences(masker.value(old), masker.value(new)), masker)


@each_row(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["! a: 1 → 2"]),
        ({"a": True}, {"a": 1}, ["! a: true → 1"]),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, ['! a.b: "x" → "y"']),
        ({"a": {"b.c/d": 1}}, {"a": {}}, ['- a["b.c/d"]: 1']),
        ({}, {"a": [1, 2]}, ["+ a: [1, 2]"]),
        ({"a": None}, {}, []),
        ({"a": "x"}, {"a": {"b": 1}}, ['! a: "x" → {"b": 1}']),
        ({"args": ["--a", "--b"]}, {"args": ["--new", "--a", "--b"]}, ['+ args[0]: "--new"']),
        ({"args": ["--a", "--b"]}, {"args": ["--a", "--c"]}, ['! args[1]: "--b" → "--c"']),
        ({"args": ["--a", "--b"]}, {"args": ["--b", "--a"]}, ["! args: the same elements in another order"]),
        ({"zones": ["i", "j"]}, {"zones": ["j", "i"]}, []),
        ({"zones": ["i", "j"]}, {"zones": ["k", "j"]}, ['- zones[]: "i"', '+ zones[]: "k"']),
        ({"zones": ["i", "i"]}, {"zones": ["i"]}, ['- zones[]: "i"']),
        ({"a": "one\ntwo\n"}, {"a": "one\n2\n"}, ['- a, line 2: "two"', '+ a, new line 2: "2"']),
        ({"a": "one\ntwo\n"}, {"a": "one\ntwo"}, ["! a: only the ends of its lines"]),
        ({"a": "one\n"}, {"a": "two\n"}, ['- a, line 1: "one"', '+ a, new line 1: "two"']),
        ({}, {"a": "one\ntwo\n"}, ["+ a:", "+   one", "+   two"]),
        ({"a": "one\ntwo"}, {"a": "1"}, ["- a:", "-   one", "-   two", '+ a: "1"']),
        ({"a": "\n".join("x" * 14)}, {}, ["- a:", *["-   x"] * 12, "-   … and 2 more lines"]),
        ({"a": {"b": 1, "__defaults": []}}, {"a": {"b": 1, "__defaults": ["c"]}}, []),
    ],
)  # fmt: skip
def test_a_difference_is_one_line_or_a_text_below_its_path(old: Any, new: Any, expected: list[str]) -> None:
    diff = lines(old, new)
    assert diff == expected or sorted(diff) == sorted(expected)
    assert not [line for line in diff if "\\n" in line]


def test_elements_with_names_are_matched_by_them() -> None:
    old = {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]}
    new = {"containers": [{"name": "new"}, {"name": "a", "image": "x:2"}, {"name": "b", "image": "y:1"}]}
    assert lines(old, new) == ['! containers[a].image: "x:1" → "x:2"', '+ containers[new]: {"name": "new"}']


def test_the_order_of_named_elements_counts_where_it_means_something() -> None:
    first, second = {"name": "a"}, {"name": "b"}
    assert lines({"subjects": [first, second]}, {"subjects": [second, first]}) == []
    swapped = lines({"initContainers": [first, second]}, {"initContainers": [second, first]})
    assert swapped == ["! initContainers: the same elements in another order"]


def test_what_is_computed_later_is_one_line() -> None:
    new = dict.fromkeys("abc", UNKNOWN) | {"d": [UNKNOWN, 1]}
    assert lines({"a": 1, "d": [0, 1]}, new) == ["  computed later: a, b, c, d[0]"]


def test_json_in_a_text_is_compared_by_structure() -> None:
    board = {"panels": [{"id": 1, "title": "GPUs"}, {"id": 2, "title": "Nodes"}], "title": "Fleet"}
    changed = {"title": "Fleet", "panels": [{"id": 1, "title": "GPU"}, {"id": 2, "title": "Nodes"}]}
    old, new = ({"data": {"fleet.json": json.dumps(each)}} for each in (board, changed))
    assert lines(old, new) == ['! data["fleet.json"]:panels[1].title: "GPUs" → "GPU"']
    spaced = {"data": {"fleet.json": json.dumps(board, indent=2, sort_keys=True)}}
    assert lines(old, spaced) == []


def test_a_long_value_is_shown_where_it_differs() -> None:
    [line] = lines({"a": "x" * 5000 + "old"}, {"a": "x" * 5000 + "new"})
    assert "old" in line
    assert "new" in line
    assert len(line) < 500


def test_many_differences_are_counted() -> None:
    diff = lines({}, {f"key{number}": number for number in range(1000)})
    assert len(diff) == 61
    assert diff[-1] == "  … and 940 more differences"


def test_a_new_name_in_other_places_is_one_line() -> None:
    old = {"metadata": {"name": "job-1"}, "image": "i:1", "env": [{"name": "A", "value": "of job-1"}]}
    new = {"metadata": {"name": "job-2"}, "image": "i:2", "env": [{"name": "A", "value": "of job-2"}]}
    masker = Masker()
    remaining = after_a_rename(differences(masker.value(old), masker.value(new)), "metadata.name")
    assert {each.path: each.kind for each in remaining} == {
        "metadata.name": "changed", "image": "changed", "env[A].value": "follows",
    }  # fmt: skip
    assert "  … and its new name in 1 other place" in difference_lines(remaining, masker)


def test_lists_of_thousands_are_compared_in_a_moment() -> None:
    old = {"args": [f"--{number}" for number in range(3000)]}
    assert lines(old, {"args": ["--new", *old["args"]]}) == ['+ args[]: "--new"']


def test_a_difference_without_a_path_is_of_the_whole() -> None:
    assert difference_lines([Difference(path="", kind="changed", old=1, new=2)], Masker()) == ["! (all): 1 → 2"]
