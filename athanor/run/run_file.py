"""Run files: `athanor run -f run.yaml`, whose keys are the options, and `--print-yaml`, which writes one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, cast

from infra.errors import RefusalError, choices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_COMMAND = "command"
_FILE = ("-f", "--file")
_NOT_OF_A_JOB = frozenset(
    ["help", "file", "program", "follow", "preview", "print_program", "print_yaml", "json", "replace", "from_arena"]
)


def with_file(words: Sequence[str], run: argparse.ArgumentParser) -> list[str]:
    """Return the words of `athanor run` with those of its file in front, so that options that were typed win.

    Args:
        words: Behind `run`.
        run: The parser of the command.

    Raises:
        RefusalError: the file cannot be read, or says what is not an option.
    """
    end = words.index("--") if "--" in words else len(words)
    only_file = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    only_file.add_argument(*_FILE)
    known, rest = only_file.parse_known_args(words[:end])
    if known.file is None:
        return list(words)
    from athanor.run.yaml_text import read_yaml_text  # noqa: PLC0415 - YAML, which other commands spare

    content = dict(read_yaml_text("--file", known.file))
    command = content.pop(_COMMAND, None)
    behind = words[end:] if end < len(words) else ["--", *_command_words(command)]
    return [*_options(content, run), *rest, *behind]


def _command_words(command: object) -> list[str]:
    listed = cast("list[object]", command) if isinstance(command, list) else []
    words = [word for word in listed if isinstance(word, str)]
    if words and len(words) == len(listed):
        return words
    if not isinstance(command, str):
        limit = "must be the text of a command, or a list of its words"
        fix = "write command: python train.py, or a command after --"
        raise RefusalError(_COMMAND, cast("object", command), limit, fix)
    from athanor.run.shell_words import shell_words  # noqa: PLC0415 - the classes of jobs, which other commands spare

    return list(shell_words(_COMMAND, command))


def _options(content: Mapping[str, object], run: argparse.ArgumentParser) -> Iterator[str]:
    actions = _job_actions(run)
    for key, value in content.items():
        action = actions.get(key.replace("_", "-"))
        if action is None:
            raise RefusalError("--file", key, "is not an option of a job", choices(key, [*actions, _COMMAND]))
        option = action.option_strings[-1]
        if action.nargs == 0:
            if value not in {"true", "false"}:
                raise RefusalError(option, value, "must be true or false", f"write {key}: true, or omit it")
            yield from [option] * (value == "true")
            continue
        several = isinstance(action.default, list)
        for each in _items(value) if several else [value]:
            if not isinstance(each, str):
                limit = "must be a value, a list of them, or names with values" if several else "must be one value"
                raise RefusalError(option, each, limit, f"write {key}: VALUE")
            yield f"{option}={each}"


def _items(value: object) -> list[object]:
    """Return the values of an option that may be repeated."""
    if isinstance(value, dict):
        return [f"{name}={each}" for name, each in cast("dict[str, object]", value).items()]
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _job_actions(run: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the options that describe a job or its cluster, by their names without dashes."""
    actions = (each for each in run._actions if each.dest not in _NOT_OF_A_JOB)  # noqa: SLF001 - it has no other name
    return {each.option_strings[-1].removeprefix("--"): each for each in actions if each.option_strings}


def as_yaml(arguments: argparse.Namespace, run: argparse.ArgumentParser) -> str:
    """Return the file of a command line: what differs from the defaults, and the command as its words."""
    import yaml  # noqa: PLC0415 - of this option alone

    content: dict[str, Any] = {}
    for name, action in _job_actions(run).items():
        value = getattr(arguments, action.dest)
        if value == action.default:
            continue
        if isinstance(value, list):
            items = cast("list[str | tuple[str, str]]", value)
            content[name] = [each if isinstance(each, str) else "=".join(each) for each in items]
        else:
            content[name] = value if isinstance(value, bool | int) else str(value)
    content[_COMMAND] = list(arguments.program)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
