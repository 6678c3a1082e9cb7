"""Names that every service takes, and tags that say whose a resource is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import settings as search
from hypothesis import strategies as st

from infra.alicloud.names import LONGEST_NAME, resource_name, tags
from infra.errors import RefusalError
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import settings


def _named(thing, stack="prod"):
    names = []
    record(lambda: names.append(resource_name(thing)), preview=True, stack=stack)
    return names[0]


def test_a_name_says_project_stack_and_thing():
    assert _named("vpc") == "athanor-prod-vpc"


def test_a_name_that_some_service_cuts_is_refused():
    longest = "x" * (LONGEST_NAME - len("athanor-prod-"))
    assert len(_named(longest)) == LONGEST_NAME
    with pytest.raises(RefusalError, match=rf"64 characters.*at most {LONGEST_NAME}.*Fix: rename the stack 'prod'"):
        _named(longest + "x")


@each_row("stack", ["Prod", "team_a", "a.b", "a--b"])
def test_a_stack_name_that_some_service_refuses_is_refused(stack):
    with pytest.raises(RefusalError, match="every service accepts"):
        _named("vpc", stack)


@search(max_examples=40)
@given(thing=st.text(alphabet="aZ09-_./ ", max_size=70))
def test_every_name_is_legal_or_refused(thing):
    try:
        name = _named(thing)
    except RefusalError:
        return
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,62}", name)
    assert not name.endswith("-")


def test_tags_say_whose_a_resource_is_and_cannot_be_overruled():
    environment = settings(tags={"team": "vision"})
    collected = []
    record(lambda: collected.append(tags(environment)), preview=True, stack="dev")
    assert collected == [{"team": "vision", "athanor:project": "athanor", "athanor:stack": "dev"}]
