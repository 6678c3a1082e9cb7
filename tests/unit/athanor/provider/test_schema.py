"""The schema of the package for other languages: its golden file is what their SDKs are generated from."""

import inspect
import json
import os
from dataclasses import fields
from pathlib import Path

import pytest

from athanor.provider.components import WORKLOADS
from athanor.provider.package import Package
from athanor.provider.properties import properties, schema_type
from tests.tables import each_row
from workloads.resources import Resources

GOLDEN = Path(__file__).with_name("schema.json")
VERSION = "0.1.0"
"""Any: a release must not change the golden file."""


@pytest.fixture(scope="module")
def schema():
    return json.loads(Package(VERSION).schema)


def test_it_is_the_golden_one(schema):
    text = json.dumps(schema, indent=1, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == text, "if that is wanted, run UPDATE_GOLDEN=1 make test-fast"


def test_no_file_is_parsed_for_types_that_are_in_none():
    """It took the package five seconds to start."""
    with pytest.raises(TypeError):
        inspect.getsource(schema_type(Resources))


@each_row(("of", "arguments"), WORKLOADS.items(), ids=lambda each: each.__name__)
def test_every_argument_of_a_python_program_can_be_written(schema, of, arguments):
    resource = schema["resources"][f"athanor:index:{of.__name__}"]
    assert {each.field for each in properties(arguments).values()} == {each.name for each in fields(arguments)}
    assert len(resource["inputProperties"]) == len(properties(arguments)) + len(("platform", "kubeconfig"))


def test_everything_but_a_choice_of_nothing_more_is_described(schema):
    described = [*schema["resources"].values(), *schema["types"].values()]
    assert all(each["description"] for each in described)
    arguments = schema["resources"]["athanor:index:PyTorchJob"]["inputProperties"]
    # of the class itself, of its base, and of what any workload takes
    for name in ("program", "env", "kubeconfig"):
        assert arguments[name]["description"]
    assert arguments["maxRestarts"]["plain"]
    assert schema["types"]["athanor:index:Spread"]["properties"]["over"]["description"].endswith("One of nodes, zones.")


def test_only_the_kubeconfig_is_a_secret(schema):
    for of in WORKLOADS:
        inputs = schema["resources"][f"athanor:index:{of.__name__}"]["inputProperties"]
        assert [name for name, each in inputs.items() if each.get("secret")] == ["kubeconfig"]
