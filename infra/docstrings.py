"""Docstrings below the fields of a class, which Python itself does not keep: for the schemas of these classes."""

from __future__ import annotations

import ast
import inspect
import textwrap

_WITHOUT_FIELDS = {"builtins", "pulumi", "typing"}


def field_docstrings(of: type) -> dict[str, str]:
    """Return the text below each annotated field of a class and its bases by name, each as one line."""
    texts: dict[str, str] = {}
    for base in reversed(of.__mro__):
        if base.__module__.partition(".")[0] not in _WITHOUT_FIELDS:
            texts |= _own_docstrings(base)
    return texts


def _own_docstrings(of: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(of))).body
    assert isinstance(tree, ast.ClassDef)
    texts: dict[str, str] = {}
    for line, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            match following:
                case ast.Expr(value=ast.Constant(value=str(description))):
                    texts[line.target.id] = " ".join(description.split())
                case _:
                    pass
    return texts
