"""The code that the documentation shows, as programs that can be run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

JOBS = Path(__file__).parent.parent / "docs" / "jobs.md"
USER = JOBS.with_name("user.md")
PARALLEL, TRAIN = (JOBS.with_name(name) for name in ("parallel.md", "train-your-own.md"))
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = re.compile(r"^athanor run (?:.*\\\n)*.*$", re.MULTILINE)
"""With the lines that a backslash continues."""
_THEN = re.compile(r"^--then '.*'$", re.MULTILINE)
_NAME = re.compile(r'^(?:    )?[A-Z]\w+\(\n\s+f?"([a-z0-9-]+)', re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Example:
    """One block of code; `platform` is in scope."""

    heading: str
    name: str
    """Name of the (first) job that it declares."""
    code: str


def file_shown(page: Path, title: str) -> str:
    """Return the Python file of a page whose docstring is `title`."""
    [code] = [
        block[1] for block in _BLOCK.finditer(page.read_text(encoding="utf-8")) if block[1].startswith(f'"""{title}')
    ]
    return code


def own_script() -> str:
    """Return the script of docs/user.md that somebody who has never seen the repository trains first."""
    scripts = [block[1] for block in _BLOCK.finditer(USER.read_text(encoding="utf-8")) if "argparse" in block[1]]
    [script] = scripts
    return script


def own_command() -> str:
    """Return the command of docs/user.md that runs this script."""
    return commands_of_run()[0]


def commands_of_run() -> list[str]:
    """Return the commands of docs/user.md that begin with `athanor run` on a line of their own, in their order."""
    return _RUN.findall(USER.read_text(encoding="utf-8"))


def command_with(words: str) -> str:
    """Return the only one of them that contains certain words."""
    [command] = [each for each in commands_of_run() if words in each]
    return command


def export_of_best() -> str:
    """Return the option of docs/user.md by which `athanor sweep` makes a model of its best trial."""
    [option] = _THEN.findall(USER.read_text(encoding="utf-8"))
    return option


def job_examples() -> list[Example]:
    """Return the examples of docs/jobs.md in their order."""
    text = JOBS.read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    examples: list[Example] = []
    for block in _BLOCK.finditer(text):
        heading = next(each[1] for each in reversed(headings) if each.start() < block.start())
        name = _NAME.search(block[1])
        assert name is not None, f"an example below {heading!r} declares nothing"
        examples.append(Example(heading=heading, name=name[1], code=block[1]))
    return examples
