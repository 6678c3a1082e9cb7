"""The recording engine must see what the real one would: else every test that asserts absence proves nothing."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from tests.recording_engine import UNKNOWN, Secret, record, scalars


def _namespace(name: str, **options: object) -> kubernetes.core.v1.Namespace:
    return kubernetes.core.v1.Namespace(name, metadata={"name": name}, opts=pulumi.ResourceOptions(**options))


def test_what_registers_after_an_apply_is_still_recorded():
    def program() -> None:
        first = _namespace("first")
        first.metadata.apply(lambda _: _namespace("late"))

    assert {resource.name for resource in record(program, preview=False).resources.values()} == {"first", "late"}


def test_a_preview_knows_no_identifiers():
    def program() -> None:
        first = _namespace("first")
        kubernetes.core.v1.ConfigMap("second", data={"id": first.id})

    assert record(program, preview=True).one("second").inputs["data"] == {"id": UNKNOWN}
    assert record(program, preview=False).one("second").inputs["data"] == {"id": "first-id"}


def test_secrets_stay_marked():
    def program() -> None:
        kubernetes.core.v1.ConfigMap("config", data={"word": pulumi.Output.secret("hidden")})

    inputs = record(program, preview=False).one("config").inputs
    assert Secret({"word": "hidden"}) in inputs.values() or Secret("hidden") in inputs["data"].values()
    assert "hidden" not in [value for _, value in scalars(inputs)]


def test_dependencies_parents_and_options_are_recorded():
    class Parent(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("athanor:test:Parent", "parent")
            self.first = _namespace("first", parent=self)
            _namespace("second", parent=self, depends_on=[self.first], delete_before_replace=True, protect=True)
            self.register_outputs({"done": True})

    recording = record(Parent, preview=False)
    second = recording.one("second")
    assert second.parent == recording.one("parent").urn
    assert second.depends_on == {recording.one("first").urn}
    assert second.delete_before_replace
    assert second.protect
    assert recording.one("parent").outputs == {"done": True}
    assert second.urn == "urn:pulumi:local::athanor::athanor:test:Parent$kubernetes:core/v1:Namespace::second"


def test_a_logical_name_cannot_be_taken_twice():
    def program() -> None:
        _namespace("same")
        _namespace("same")

    with pytest.raises(ValueError, match="Duplicate resource URN"):
        record(program, preview=False)


def test_an_error_in_an_apply_is_not_swallowed():
    def program() -> None:
        _namespace("first").metadata.apply(lambda _: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        record(program, preview=False)


def test_runs_do_not_see_each_other():
    assert record(lambda: pulumi.export("only", "here"), preview=False).exports == {"only": "here"}
    assert record(lambda: None, preview=False).exports == {}
