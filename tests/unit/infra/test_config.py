"""The engine hands configuration over as text: the settings must be what the stack's file says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pulumi
import pytest

from infra.config import load_settings
from tests.recording_engine import record

if TYPE_CHECKING:
    from infra.settings.stack import Settings


def _loaded(config: dict[str, object]) -> Settings:
    loaded: list[Settings] = []
    record(lambda: loaded.append(load_settings()), preview=True, config=config)
    return loaded[0]


@pytest.fixture(autouse=True)
def _no_configuration_of_the_machine(monkeypatch):
    monkeypatch.delenv("PULUMI_CONFIG", raising=False)


def test_objects_and_lists_are_decoded():
    settings = _loaded(
        {"namespace": "team-a", "digits": {"workers": 4}, "scheduling": {"queues": [{"name": "a"}, {"name": "b"}]}}
    )
    assert settings.namespace == "team-a"
    assert settings.digits.workers == 4
    assert [queue.name for queue in settings.scheduling.queues] == ["a", "b"]


def test_a_text_that_only_looks_like_an_object_stays_text():
    with pytest.raises(pulumi.RunError, match=r"athanor:namespace = '\{not json'"):
        _loaded({"namespace": "{not json"})


def test_other_packages_keys_are_not_ours(monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps({"kubernetes:context": "kind", "athanor:namespace": "from-cli"}))
    assert _loaded({}).namespace == "from-cli"


def test_wrong_settings_end_the_program_with_their_message_alone():
    with pytest.raises(pulumi.RunError) as caught:
        _loaded({"digits": {"workers": 0, "epoch": 3}})
    assert "athanor:digits.workers = 0" in str(caught.value)
    assert "did you mean epochs?" in str(caught.value)
