"""The Alibaba Cloud provider that we build is, for what it maps, the one that pulumi-alicloud's SDK was made for.

Schemas are compared; that the provider works is shown in test_alicloud_double.py, and that it checks what it is given
in test_environment_previews.py.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
import types
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import pulumi
import pulumi_alicloud
import pytest
from pulumi._types import resource_py_to_pulumi_names

from tools.paths import REPOSITORY
from tools.process import run
from tools.toolchain import ensure
from tools.toolchain.store import pulumi_home

PRIMITIVES = {str: "string", int: "integer", float: "number", bool: "boolean", Any: "any"}
UNRESOLVED = {"Output": pulumi.Output, "T": type(None)}
"""Names in the annotations of pulumi.Input that its own module knows."""

Shape = Any
"""Type of a property without names of types: "string", ("array", shape), ("map", shape), {name: (shape, required)}."""


# What the SDK says, by introspection.


def sdk_members(cls: type) -> dict[str, tuple[Shape, bool]]:
    """Return shape and required-ness of the properties that a class adds to its base, by the engine's names."""
    names = resource_py_to_pulumi_names(cls)
    getters = {names[name]: vars(cls)[name].fget for name in names if name in vars(cls)}
    known = vars(sys.modules[cls.__module__])
    hints = {name: get_type_hints(getter, known, UNRESOLVED)["return"] for name, getter in getters.items()}
    return {name: (sdk_shape(hint), not is_optional(hint)) for name, hint in hints.items()}


def is_optional(hint: Any) -> bool:
    if get_origin(hint) is pulumi.Output:
        return is_optional(get_args(hint)[0])
    return type(None) in get_args(hint)


def sdk_shape(hint: Any) -> Shape:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        # An Input is the value itself, an awaitable or an Output of it; a dictionary may stand for each class.
        plain = [
            one
            for one in arguments
            if get_origin(one) not in (Awaitable, pulumi.Output) and one is not type(None) and not is_typeddict(one)
        ]
        assert len(plain) == 1, hint
        return sdk_shape(plain[0])
    if origin is pulumi.Output:
        return sdk_shape(arguments[0])
    if origin in (Sequence, list):
        return ("array", sdk_shape(arguments[0]))
    if origin in (Mapping, dict):
        return ("map", sdk_shape(arguments[1]))
    return PRIMITIVES[hint] if hint in PRIMITIVES else sdk_members(hint)


# What the provider says, by its schema.


class Schema:
    """The schema of a provider."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def shape(self, spec: Mapping[str, Any]) -> Shape:
        if reference := spec.get("$ref"):
            return "any" if reference.endswith("#/Any") else self._object(reference.removeprefix("#/types/"))
        if spec["type"] == "array":
            return ("array", self.shape(spec["items"]))
        if spec["type"] == "object":
            return ("map", self.shape(spec["additionalProperties"]))
        return spec["type"]

    def members(self, properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, tuple[Shape, bool]]:
        return {name: (self.shape(spec), name in required) for name, spec in properties.items()}

    def _object(self, token: str) -> Shape:
        named = self.content["types"][token]
        return self.members(named["properties"], named.get("required", ()))


def sdk_module(token: str) -> types.ModuleType:
    """Return the SDK's module of `alicloud:cs/nodePool:NodePool` by the middle of the token."""
    package, module = token.split(":")[1].split("/")
    name = re.sub(r"(?<!^)([A-Z])", lambda match: f"_{match[1].lower()}", module)
    return importlib.import_module(f"pulumi_alicloud.{package}.{name}")


@pytest.fixture(scope="session")
def plugin() -> dict[str, Path]:
    """Return the engine and the provider, built if they are not there yet."""
    return ensure(["pulumi", "pulumi-resource-alicloud"])


@pytest.fixture(scope="session")
def schema(plugin: dict[str, Path]) -> Schema:
    text = run(
        [plugin["pulumi"], "package", "get-schema", plugin["pulumi-resource-alicloud"]],
        env={"PULUMI_HOME": str(pulumi_home()), "PULUMI_SKIP_UPDATE_CHECK": "true"},
    )
    return Schema(json.loads(text))


def used_resources() -> Iterator[type]:
    """Yield each resource of the SDK that our program makes."""
    for file in (*(REPOSITORY / "infra").rglob("*.py"), *(REPOSITORY / "workloads").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            words = ast.unparse(node.func).split(".") if isinstance(node, ast.Call) else []
            if words[:1] == ["alicloud"] and len(words) == 3:
                attribute = getattr(importlib.import_module(f"pulumi_alicloud.{words[1]}"), words[2])
                if isinstance(attribute, type) and issubclass(attribute, pulumi.CustomResource):
                    yield attribute


def test_what_the_program_uses_is_mapped(schema: Schema) -> None:
    used = {resource_class.__module__ + "." + resource_class.__name__ for resource_class in used_resources()}
    mapped = {f"{sdk_module(token).__name__}.{token.rpartition(':')[2]}" for token in schema.content["resources"]}

    assert used <= mapped
    assert len(mapped) > 20


def test_the_version_is_the_one_that_the_sdk_asks_for(schema: Schema) -> None:
    plugin_file = Path(pulumi_alicloud.__file__).parent / "pulumi-plugin.json"
    asked = json.loads(plugin_file.read_text(encoding="utf-8"))

    assert (schema.content["name"], schema.content["version"]) == (asked["name"], asked["version"])


def test_resources_take_and_give_what_the_sdk_says(schema: Schema) -> None:
    for token, resource in schema.content["resources"].items():
        module, name = sdk_module(token), token.rpartition(":")[2]
        cls = getattr(module, name)
        inputs = schema.members(resource["inputProperties"], resource.get("requiredInputs", ()))
        # The first one that the module exports: NodePoolArgs, but KubernetesAddonInitArgs.
        assert inputs == sdk_members(getattr(module, module.__all__[0])), token
        state = schema.members(resource["stateInputs"]["properties"], ())
        assert state == sdk_members(getattr(module, f"_{name}State")), token
        outputs = schema.members(resource["properties"], resource.get("required", ()))
        assert outputs == sdk_members(cls), token
        assert f"'{token}'" in inspect.getsource(cls)


def test_resources_keep_secret_what_the_sdk_says(schema: Schema) -> None:
    for token, resource in schema.content["resources"].items():
        source = inspect.getsource(getattr(sdk_module(token), token.rpartition(":")[2]))
        listed = re.search(r"additional_secret_outputs=\[(.*?)\]", source)
        secret = {name for name, spec in resource["properties"].items() if spec.get("secret")}
        assert secret == set(re.findall(r'"(\w+)"', listed[1] if listed else "")), token


def test_functions_take_and_give_what_the_sdk_says(schema: Schema) -> None:
    mapped = {token: one for token, one in schema.content["functions"].items() if token.startswith("alicloud:")}
    assert mapped
    for token, function in mapped.items():
        module, name = sdk_module(token), token.rpartition(":")[2]
        called = getattr(module, module.__name__.rpartition(".")[2])
        source = inspect.getsource(called)
        given = {
            engine_name: get_type_hints(called)[python_name]
            for engine_name, python_name in re.findall(r"__args__\['(\w+)'\] = (\w+)", source)
        }
        inputs = schema.members(function["inputs"]["properties"], ())
        assert {name: shape for name, (shape, _) in inputs.items()} == {
            name: sdk_shape(hint) for name, hint in given.items()
        }, token
        result = getattr(module, f"{name[0].upper()}{name[1:]}Result")
        outputs = function["outputs"]
        assert schema.members(outputs["properties"], outputs.get("required", ())) == sdk_members(result), token
        assert f"'{token}'" in source


def test_the_provider_is_configured_as_the_sdk_says(schema: Schema) -> None:
    provider = schema.content["provider"]["inputProperties"]

    assert schema.members(provider, ()) == sdk_members(pulumi_alicloud.ProviderArgs)
    source = inspect.getsource(pulumi_alicloud.ProviderArgs)
    from_environment = dict(re.findall(r"(\w+) = _utilities\.get_env\('(\w+)'\)", source))
    names = resource_py_to_pulumi_names(pulumi_alicloud.ProviderArgs)
    assert {name: spec["defaultInfo"]["environment"] for name, spec in provider.items() if "defaultInfo" in spec} == {
        names[name]: [variable] for name, variable in from_environment.items()
    }
