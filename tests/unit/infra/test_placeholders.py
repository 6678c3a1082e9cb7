"""A preview of a committed environment says which of its values name nothing that exists."""

from __future__ import annotations

import pulumi
import pytest

from infra.build import PLACEHOLDERS
from infra.settings.parse import parse_settings
from tests.fixtures.recorded_stack import UNWATCHED
from tools.stacks.engine import stack_config

ENVIRONMENTS = ("dev", "staging", "prod")


@pytest.fixture
def warnings(monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_, **__: messages.append(message))
    return messages


def about_placeholders(warnings):
    return [message for message in warnings if message.startswith("Placeholders")]


def test_the_placeholders_are_those_of_the_committed_environments():
    images = [parse_settings(stack_config(stack)).images for stack in ENVIRONMENTS]
    values = {value for each in images for value in (each.registry, each.acr_instance_id) if value}
    assert values == PLACEHOLDERS


@pytest.mark.parametrize("stack", ENVIRONMENTS)
def test_a_preview_warns_of_them(record_stack, stack, warnings):
    # A configuration that no other test records: equal ones share a recording, and warn once.
    record_stack({**stack_config(stack), "namespace": "placeholders", **UNWATCHED}, preview=True, stack=stack)
    [message] = about_placeholders(warnings)
    assert f"Pulumi.{stack}.yaml" in message
    assert "images.registry" in message
    assert ("images.acr_instance_id = cri-athanor0prod0000" in message) is (stack == "prod")
    assert ("images.acr_instance_id = cri-athanor0dev00000" in message) is (stack != "prod")


def test_own_values_are_not_placeholders(record_stack, warnings):
    config = stack_config("dev")
    own = {"registry": "own-vpc.cn-hangzhou.cr.aliyuncs.com/own", "acr_instance_id": "cri-own"}
    config["images"] = {**config["images"], **own}
    record_stack({**config, **UNWATCHED}, preview=True, stack="dev")
    assert about_placeholders(warnings) == []
