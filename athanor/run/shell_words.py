"""Splitting of a command line into words as a POSIX shell does it; anything only a shell can expand is refused.

Source: The Open Group Base Specifications, issue 8, "Shell Command Language", sections 2.2 (quoting), 2.3 (tokens) and
2.6 (word expansions). Patterns such as *.txt stay as they are: a shell leaves them alone, too, where nothing matches.
"""

from __future__ import annotations

import re

from infra.errors import RefusalError
from workloads.pods import INDEX_VARIABLE, JOB_VARIABLE

_PIECE = re.compile(
    rf"""
    (?P<gap>[ \t]+|\\\n)
    |(?P<comment>\#[^\n]*)
    |(?P<end>\n)
    |(?P<reference>\$\((?:{JOB_VARIABLE}|{INDEX_VARIABLE})\))
    |'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\]|\\.)*)"
    |\\(?P<escaped>.)
    |(?P<shell>\$(?:[A-Za-z_]\w*|[\{{\('"0-9@*#?$!-])|`|~|&&|\|\||;;|<<|>>|[;&|<>()])
    |(?P<open>['"\\])
    |(?P<plain>[^ \t\n'"\\$`;&|<>()]+?(?=[ \t\n'"\\$`;&|<>()~\#]|\Z)|[$~\#])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_IN_DOUBLE_QUOTES = re.compile(
    rf"""(?P<reference>\$\((?:{JOB_VARIABLE}|{INDEX_VARIABLE})\))
    |\\(?:\n|(?P<escaped>[$`"\\]))
    |(?P<shell>\$(?:[A-Za-z_]\w*|[\{{\(0-9@*#?$!-])|`)
    |(?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class ShellNeededError(RefusalError):
    """A command that only a shell can run."""


def shell_words(field: str, text: str) -> tuple[str, ...]:
    """Return the words of a command.

    Args:
        field: What a refusal names: `command`, or the option that has the text.
        text: The command. `$(ATHANOR_JOB)` and `$(VC_TASK_INDEX)` stay as they are: they are replaced in the pods.

    Raises:
        ShellNeededError: a shell would do more with it than split it into words.
        RefusalError: a quote is open, or there are no words.
    """
    words: list[str] = []
    word: str | None = None
    ended = False
    position = 0
    while match := _PIECE.match(text, position):
        kind, position = match.lastgroup or "", match.end()
        if word is not None and match[0][0] in "#~":  # means something only where a word begins
            word, position = word + match[0][0], match.start() + 1
            continue
        if kind == "open":
            limit = "is not a command: " + ("it ends with \\" if match[0] == "\\" else f"{match[0]} is not closed")
            raise RefusalError(field, text, limit, "close its quotes; text with quotes of its own needs \\ before them")
        if kind == "shell":
            raise _needs_a_shell(field, text, match[0])
        if kind in {"gap", "end", "comment"}:
            if word is not None and match[0] != "\\\n":
                words.append(word)
                word = None
            ended = ended or (kind == "end" and bool(words))
            continue
        if ended:
            raise _needs_a_shell(field, text, "a second line")
        content = match[kind]
        word = (word or "") + (_double_quoted(field, text, content) if kind == "double" else content)
    if word is not None:
        words.append(word)
    if not words:
        raise RefusalError(field, text, "is empty", "write the program and its arguments")
    return tuple(words)


def _double_quoted(field: str, text: str, content: str) -> str:
    plain = ""
    for match in _IN_DOUBLE_QUOTES.finditer(content):
        if match["shell"]:
            raise _needs_a_shell(field, text, match["shell"])
        plain += match[match.lastgroup] if match.lastgroup else ""
    return plain


def _needs_a_shell(field: str, text: str, what: str) -> ShellNeededError:
    fix = "quote it if it is text, put it into a script, or write sh -c '…' (for `athanor run` with --kind batch)"
    if what == "a second line":
        fix = "end the first line with \\ if both are one command, or put them into a script"
    return ShellNeededError(field, text, f"{what} needs a shell", fix)
