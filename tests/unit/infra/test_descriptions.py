from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import pulumi
import pytest

from infra.descriptions import Input, checked, require
from infra.errors import RefusalError
from infra.kubernetes.grammar import LabelKey, LabelValue, Memory, Word
from tests.recording_engine import record
from tests.tables import each_row


@checked("part")
@dataclass(frozen=True, kw_only=True)
class Part:
    number: int = 1


@checked()
@dataclass(frozen=True, kw_only=True)
class Base:
    part: Part = Part()
    labels: Mapping[LabelKey, LabelValue] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if self.part.number == 7:
            raise RefusalError("part.number", 7, "is not ours", "choose another")


@checked("place")
@dataclass(frozen=True, kw_only=True)
class Place:
    path: str = field(default=".", kw_only=False)
    depth: int = 0


@checked()
@dataclass(frozen=True, kw_only=True)
class Whole(Base):
    words: Sequence[Word]
    image: Input[str] | None = None


def test_what_fits_is_kept_as_it_was_given():
    made = Whole(words=("a", "b"), labels={"a": "b"}, part=Part(number=2))
    assert (made.words, made.labels, made.part.number, made.image) == (("a", "b"), {"a": "b"}, 2, None)
    assert made == Whole(words=("a", "b"), labels=MappingProxyType({"a": "b"}), part=Part(number=2))
    assert dataclasses.replace(made, image="x").image == "x"


def test_a_field_that_needs_no_name_may_have_one():
    assert Place("a", depth=1) == Place(path="a", depth=1)
    assert dataclasses.replace(Place("a"), depth=1) == Place("a", depth=1)


def test_what_was_given_may_change_afterwards():
    words, labels = ["a"], {"a": "b"}
    made = Whole(words=words, labels=labels)
    words.append("b")
    labels["c"] = "d"
    assert (made.words, made.labels) == (["a"], {"a": "b"})


@each_row(
    ("make", "message"),
    [
        (lambda: Part(number="1"), "part.number = '1': must be a whole number. Fix: write 1 without quotes"),
        (lambda: Part(numbr=1), "part.numbr = 1: Part has no such field. Fix: did you mean number?"),
        (Whole, "Whole = {}: lacks words. Fix: add words=…"),
        (lambda: Part(1), "Part = (1,): takes only keyword arguments. Fix: write number=…"),
        (lambda: Place("a", 1), "Place = ('a', 1): takes only keyword arguments after path. Fix: write depth=…"),
        (lambda: Place("a", path="b"), "Place = ('a', 'b'): has path twice. Fix: write path=… once"),
        (lambda: Place(1), "place.path = 1: must be a string. Fix: write \"1\""),
        (lambda: Whole(words=("a",), part=2), "part = 2: must be Part. Fix: write Part"),
        (
            lambda: Whole(words=("a", None)),
            "words[1] = None: must be a string. Fix: write a string",
        ),
        (lambda: Whole(words="a b"), "words = 'a b': is a single string. Fix: write one item per word: ('a', 'b')"),
        (lambda: Whole(words=("a",), labels={"a": 1}), "labels['a'] = 1: must be a string. Fix: write \"1\""),
        (lambda: Whole(words=("a",), image=1), "image = 1: must be a string or Awaitable or Output. Fix: write \"1\""),
        (lambda: Whole(words=("a",), part=Part(number=7)), "part.number = 7: is not ours. Fix: choose another"),
        (lambda: require("name", 1, str), "name = 1: must be a string. Fix: write \"1\""),
        (
            lambda: require("name", 10**5000, str),
            "name = <int>: must be a string. Fix: write a shorter number, in quotes",
        ),
        # What is to be written is not refused in turn.
        (lambda: require("memory", 4, Memory), "memory = 4: must be a string. Fix: write it with its unit: 4Gi"),
        (lambda: require("memory", 2.5, Memory), "memory = 2.5: must be a string. Fix: write it with its unit: 2.5Gi"),
        (lambda: require("memory", 0, Memory | None), "memory = 0: must be a string. Fix: write it with its unit: 4Gi"),
        (lambda: require("memory", 2**32, Memory), "memory = 4294967296: must be a string. Fix: write \"4294967296\""),
        (
            lambda: require("sizes", [{"a": "1Gi"}, {"b": 16}], Sequence[Mapping[str, Memory]]),
            "sizes[1]['b'] = 16: must be a string. Fix: write it with its unit: 16Gi",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(make, message):
    with pytest.raises(RefusalError) as caught:
        make()
    assert str(caught.value) == message


def test_a_key_that_does_not_fit_is_named_with_its_mapping():
    with pytest.raises(RefusalError, match=r"^labels = 'a b': is not a valid Kubernetes label key"):
        Whole(words=("a",), labels={"fine": "x", "a b": "x"})


def test_what_a_resource_will_say_is_taken_where_it_may_be():
    made: list[Whole] = []
    record(lambda: made.append(Whole(words=("a",), image=pulumi.Output.from_input("x"))), preview=False)
    assert isinstance(made[0].image, pulumi.Output)
    with pytest.raises(RefusalError, match=r"words\[0\]"):
        record(lambda: Whole(words=(pulumi.Output.from_input("x"),)), preview=False)
