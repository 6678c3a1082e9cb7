"""The committed environments on Alibaba Cloud, as the program declares them."""

from __future__ import annotations

import pytest

from infra.registry import images_of
from tests.recording_engine import Recording
from tools.engine import stack_config

ENVIRONMENTS = ("dev", "staging", "prod")


@pytest.fixture(params=ENVIRONMENTS)
def environment(request, record_stack) -> Recording:
    return record_stack(stack_config(request.param), stack=request.param)


def test_a_preview_declares_what_an_update_declares(record_stack, environment):
    assert len(environment.resources) > 50
