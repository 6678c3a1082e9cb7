"""The prose of a file, with the file's line breaks and without its code.

So a line in it has the file's number, and a phrase that continues on the next line is one piece of text.
"""

from __future__ import annotations

import ast
import bisect
import io
import re
import tokenize

CODE = "\0"
"""Stands for code: no phrase continues across it."""

_FENCE = re.compile(r"^(?P<mark>```+|~~~+).*?^(?P=mark)[ \t]*$", re.MULTILINE | re.DOTALL)
_SKIPPED = re.compile(r"<!-- prose: off -->.*?<!-- prose: on -->", re.DOTALL)
_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_TARGET = re.compile(r"(?<=\])\([^)\s]*\)|https?://\S+")
_FIELD = re.compile(r"\{\{|\}\}|\{(?:[^{}]|\{[^{}]*\})*\}")
_ESCAPE = re.compile(r"\\(?:N\{[^}]*\}|.)", re.DOTALL)
_QUOTED = re.compile(r"""^(?P<prefix>[A-Za-z]*)(?P<mark>'''|\"\"\"|'|\")(?P<body>.*)(?P=mark)$""", re.DOTALL)
_FUNCTION = re.compile(r"^[ \t]*(?:async )?def (\w+)\(", re.MULTILINE)
_COMMENT_MARK = re.compile(r"^#[:!]?")
_PROSE_TOKENS = {
    number
    for name in ("COMMENT", "STRING", "FSTRING_MIDDLE", "TSTRING_MIDDLE")
    if (number := getattr(tokenize, name, None)) is not None
}
"""Python 3.12 and later take f-strings apart."""


def markdown_prose(text: str) -> str:
    """Return the prose of a Markdown file: without code, link targets and what is between `prose: off` and `on`."""
    for pattern in (_SKIPPED, _FENCE, _SPAN, _TARGET):
        text = pattern.sub(_code, text)
    return text


def python_prose(text: str) -> str:
    """Return the comments and strings of a Python file; code in back quotes and in fields of f-strings is left out.

    Raises:
        tokenize.TokenError, IndentationError: the file is not Python.
    """
    starts = _line_starts(text)
    pieces: list[str] = []
    done = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _PROSE_TOKENS:
            begin = starts[token.start[0] - 1] + token.start[1]
            end = starts[token.end[0] - 1] + token.end[1]
            pieces += [_between(text[done:begin]), _words(text[begin:end], token.type)]
            done = end
    return _SPAN.sub(_code, "".join(pieces))


def function_names(text: str) -> list[tuple[int, str]]:
    """Return the line and the name, as words, of every function of more than one word; a test's name is a sentence."""
    starts = _line_starts(text)
    names = ((bisect.bisect_right(starts, each.start(1)), each[1].strip("_")) for each in _FUNCTION.finditer(text))
    return [(line, name.replace("_", " ")) for line, name in names if "_" in name]


def bound_names(text: str) -> list[tuple[int, str]]:
    """Return the line and the name of every variable, parameter, field and function that a Python file defines."""
    names: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.attr))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append((node.lineno, node.name))
    return names


def _words(source: str, kind: int) -> str:
    """Return a comment or a string in which marks, fields and escapes are blank."""
    if kind == tokenize.COMMENT:
        return _COMMENT_MARK.sub(_blank, source)
    if kind != tokenize.STRING:
        return _ESCAPE.sub(_blank, source)
    parts = _QUOTED.match(source)
    if parts is None:
        return source
    body = parts["body"]
    if "f" in parts["prefix"].lower():
        body = _FIELD.sub(_code, body)
    if "r" not in parts["prefix"].lower():
        body = _ESCAPE.sub(_blank, body)
    return body


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _between(source: str) -> str:
    """Return the separator of two pieces of prose: white space alone if strings or comments follow each other."""
    breaks = "\n" * source.count("\n")
    return f"{CODE}{breaks}{CODE}" if source.strip() else f" {breaks} "


def _blank(match: re.Match[str]) -> str:
    return " " + "\n" * match[0].count("\n")


def _code(match: re.Match[str]) -> str:
    return CODE + "\n" * match[0].count("\n") + CODE
