"""The contract's schema: current, true of what stacks export, and no less than what the last release promised."""

import copy
import json

import jsonschema
import pytest

from infra.outputs import CONTRACT_VERSION
from tests.tables import each_row
from tools.upkeep.contract_schema import FILE, RELEASED, broken_promises, contract_schema, text


@pytest.fixture
def schema():
    return contract_schema()


def test_the_file_is_the_one_that_the_code_writes():
    assert FILE.read_text(encoding="utf-8") == text(), "run `make lock`, which writes docs/contract.schema.json"


def test_the_last_releases_promises_are_kept():
    released = json.loads(RELEASED.read_text(encoding="utf-8"))
    if released["properties"]["contract_version"]["const"] == CONTRACT_VERSION:
        fix = f"raise CONTRACT_VERSION; if the meaning is the same, change {RELEASED.name} alike"
        assert broken_promises(released, contract_schema()) == [], fix


@pytest.mark.parametrize("settings", [{}, {"monitoring": {"kind": "none"}}])
def test_what_a_stack_exports_follows_it(record_stack, schema, settings):
    outputs = record_stack(settings).exports
    jsonschema.validate(outputs, schema)
    offers = schema["properties"]["offers"]["contentSchema"]
    jsonschema.validate(json.loads(outputs["offers"]), offers)


def test_it_refuses_what_is_not_a_platform(schema):
    with pytest.raises(jsonschema.ValidationError, match="required"):
        jsonschema.validate({"url": "http://example"}, schema)


def _without_an_output(schema):
    del schema["properties"]["queue"]


def _of_another_type(schema):
    schema["properties"]["queue"]["type"] = "integer"


def _of_another_meaning(schema):
    schema["properties"]["queue"]["description"] = "Kueue queue of jobs that name none."


def _not_always_there(schema):
    schema["required"].remove("queue")


def _without_a_field_of_a_pool(schema):
    pool = schema["properties"]["offers"]["contentSchema"]["$defs"]["PoolOffer"]
    del pool["properties"]["max_nodes"]


@each_row(
    ("change", "complaint"),
    [
        (_without_an_output, "contract.properties.queue is gone"),
        (_of_another_type, "contract.properties.queue.type was 'string' and is 'integer'"),
        (_of_another_meaning, "contract.properties.queue.description was"),
        (_not_always_there, "contract.queue is no longer always present"),
        (_without_a_field_of_a_pool, "PoolOffer.properties.max_nodes is gone"),
    ],
)
def test_a_broken_promise_is_named(schema, change, complaint):
    changed = copy.deepcopy(schema)
    change(changed)
    (sentence,) = broken_promises(schema, changed)
    assert complaint in sentence


def test_a_new_output_breaks_nothing(schema):
    changed = copy.deepcopy(schema)
    changed["properties"]["kueue_url"] = {"type": "string"}
    changed["required"].append("kueue_url")
    assert broken_promises(schema, changed) == []
