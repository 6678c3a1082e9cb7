"""Alibaba Cloud's own typed SDKs as an oracle: which operations there are, and what goes into them and comes out.

The models are generated and regular, one file for each message. They are read, not imported: importing one imports the
thousands of others. Of a model the constructor has the types, and `from_map` the names on the wire.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OPERATION = re.compile(
    r"action = '(?P<name>\w+)',\s*version = '(?P<version>[\d-]+)',\s*protocol = '\w+',\s*"
    r"pathname = f?'(?P<path>[^\n]*)',\s*method = '(?P<method>\w+)'"
)
_PLAIN: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "dict": dict,
    "Any": object,
}


class Operation(NamedTuple):
    """Where an operation is called; RPC operations are all at `/`."""

    version: str
    method: str
    path: str
    """Names in it are `{}`."""


class Sdk:
    """One of the packages.

    Args:
        package: its import name, such as alibabacloud_vpc20160428.
    """

    def __init__(self, package: str) -> None:
        specification = importlib.util.find_spec(package)
        assert specification is not None
        assert specification.submodule_search_locations
        self._folder = Path(specification.submodule_search_locations[0])

    @functools.cached_property
    def operations(self) -> dict[str, Operation]:
        """The operations by name."""
        text = (self._folder / "client.py").read_text(encoding="utf-8")
        return {
            match["name"]: Operation(
                match["version"], match["method"], re.sub(r"\{[^}]*\}", "{}", match["path"].replace("'", ""))
            )
            for match in _OPERATION.finditer(text)
        }

    def answer(self, operation: str) -> ast.expr:
        """Return the type of an operation's answer; some answer nothing."""
        return self._fields(f"{operation}Response").get("body", ast.Constant(None))

    def parameters(self, operation: str) -> dict[str, ast.expr]:
        """Return what an operation takes, by name."""
        return self._fields(f"{operation}Request") if f"{operation}Request" in self._files else {}

    def differences(self, value: Any, kind: ast.expr, at: str = "") -> Iterator[str]:
        """Yield the places of a JSON value that are not of a type: `Vpcs.Vpc.Tag`, or `Vpcs.Vpc.Size: str, not int`."""
        match kind:
            case ast.Attribute(attr=model):
                yield from self._model_differences(value, model, at)
            case ast.Subscript(value=ast.Name(id="List"), slice=item) if isinstance(value, list):
                for one in value:
                    yield from self.differences(one, item, at)
            case ast.Subscript(value=ast.Name(id="Dict"), slice=ast.Tuple(elts=[_, item])) if isinstance(value, dict):
                for name, one in value.items():
                    yield from self.differences(one, item, f"{at}.{name}")
            case ast.Name(id=name) if _is(value, name):
                pass
            case ast.Constant(value=None) if value is None:
                pass
            case _:
                yield f"{at}: {type(value).__name__}, not {ast.unparse(kind)}"

    def _model_differences(self, value: Any, model: str, at: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{at}: {type(value).__name__}, not {model}"
            return
        fields = self._fields(model)
        for name, one in value.items():
            place = f"{at}.{name}" if at else name
            if name not in fields:
                yield place
            else:
                yield from self.differences(one, fields[name], place)

    @functools.cached_property
    def _files(self) -> dict[str, str]:
        """The module of each model, by the model's name."""
        text = (self._folder / "models" / "__init__.py").read_text(encoding="utf-8")
        return {match[2]: match[1] for match in re.finditer(r"from \.(\w+) import (\w+)", text)}

    @functools.cache  # noqa: B019 - each file is read once; there is one Sdk of each package
    def _classes(self, module: str) -> dict[str, ast.ClassDef]:
        tree = ast.parse((self._folder / "models" / f"{module}.py").read_text(encoding="utf-8"))
        return {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}

    @functools.cache  # noqa: B019 - see above
    def _fields(self, model: str) -> dict[str, ast.expr]:
        """Return the types of a model's fields by their names on the wire."""
        methods = {
            one.name: one for one in self._classes(self._files[model])[model].body if isinstance(one, ast.FunctionDef)
        }
        types = {one.arg: one.annotation or ast.Name("Any") for one in methods["__init__"].args.args[1:]}
        return {
            name: types[attribute]
            for statement in methods["from_map"].body
            if isinstance(statement, ast.If)
            for name, attribute in [_wire_name(statement)]
        }


def _is(value: Any, name: str) -> bool:
    """Tell whether a JSON value is of a plain type; in Python, and not in JSON, a Boolean is a number."""
    return isinstance(value, _PLAIN[name]) and (name in {"bool", "Any"} or not isinstance(value, bool))


def _wire_name(statement: ast.If) -> tuple[str, str]:
    """Return the name on the wire and the attribute of `if m.get('Name') is not None: self.attribute = …`."""
    name = next(one.value for one in ast.walk(statement.test) if isinstance(one, ast.Constant) and one.value)
    attribute = next(
        one.attr
        for line in statement.body
        for one in ast.walk(line)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self"
    )
    return str(name), attribute
