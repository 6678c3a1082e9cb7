"""The cluster of a command: the kubeconfig's, the one chosen by `athanor context`, or the one of `make up`.

The local environment keeps its kubeconfig and its programs in a known folder (infra/machine.py), so that they are found
from any virtual environment, also from one that hides the platform's.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from athanor.runs.backend import data_folder
from athanor.runs.ending import exit_status
from athanor.runs.kubeconfig import kubeconfig_files
from infra.errors import RefusalError, choices
from infra.machine import local_home

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

NO_CHOICE = "-"
"""Choice of no context: back to the kubeconfig's current one."""


def choose_cluster(given: argparse.Namespace) -> None:
    """Name the chosen cluster in a command line that names none, or the local environment where there is no other.

    Args:
        given: Gets `kubeconfig` and `context`. A kubeconfig in the environment counts as named.
    """
    if given.kubeconfig or given.context or os.environ.get("KUBECONFIG"):
        return
    if chosen := _chosen():
        given.kubeconfig, given.context = chosen.kubeconfig, chosen.name
        sys.stderr.write(f"cluster: {chosen.name}, chosen by `athanor context`\n")
        return
    own = _local_kubeconfig()
    if own.exists() and not kubeconfig_files(None, {})[0].exists():
        given.kubeconfig = str(own)
        sys.stderr.write(f"cluster: the local environment ({own})\n")


def _local_kubeconfig() -> Path:
    return local_home() / "kubeconfig"


@dataclass(frozen=True, kw_only=True)
class _Context:
    """A context of a kubeconfig."""

    name: str
    kubeconfig: str


def _choice() -> Path:
    return data_folder(os.environ) / "context.json"


def _chosen() -> _Context | None:
    """Return the context that was chosen; None without one, or if its file is gone."""
    with suppress(OSError, ValueError, TypeError):
        chosen = _Context(**json.loads(_choice().read_text(encoding="utf-8")))
        return chosen if Path(chosen.kubeconfig).exists() else None
    return None


def run(arguments: argparse.Namespace) -> int:
    """Run `athanor context`; return its exit status.

    Args:
        arguments: as athanor/runs/arguments.py parses them.
    """
    return exit_status("context", lambda: _run(arguments), as_json=arguments.json)


def _run(arguments: argparse.Namespace) -> int:
    contexts = list(_contexts(arguments.kubeconfig))
    if arguments.name is None:
        return _list(contexts, as_json=arguments.json)
    if arguments.name == NO_CHOICE:
        _choice().unlink(missing_ok=True)
        words = "no context is chosen: the kubeconfig's current one is used"
    else:
        named = next((each for each in contexts if each.name == arguments.name), None)
        if named is None:
            names = {each.name: each for each in contexts}
            raise RefusalError(
                "NAME", arguments.name, "is not a context of your kubeconfigs", choices(arguments.name, names)
            )
        _choice().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        chosen = {"name": named.name, "kubeconfig": named.kubeconfig}
        _choice().write_text(json.dumps(chosen), encoding="utf-8")
        words = f"chosen: {named.name} of {named.kubeconfig}"
        if os.environ.get("KUBECONFIG"):
            words += "; $KUBECONFIG overrides it"
    if arguments.json:
        return _list(contexts, as_json=True)
    sys.stderr.write(f"{words}\n")
    return 0


def _list(contexts: list[_Context], *, as_json: bool) -> int:
    chosen = _chosen()
    for each in contexts:
        if as_json:
            fields = {"context": each.name, "kubeconfig": each.kubeconfig, "chosen": each == chosen}
            sys.stdout.write(f"{json.dumps(fields)}\n")
        else:
            sys.stdout.write(f"{'*' if each == chosen else ' '} {each.name}  {each.kubeconfig}\n")
    return 0


def _contexts(named: str | None) -> Iterator[_Context]:
    """Yield the contexts of the kubeconfigs that kubectl reads, and of the local environment.

    Raises:
        RefusalError: a file cannot be read.
    """
    import yaml  # noqa: PLC0415 - of this command alone

    own = _local_kubeconfig()
    files = kubeconfig_files(named, os.environ)
    listed = files if named or own in files else [*files, own]
    for file in listed:
        if not file.exists():
            continue
        try:
            content: Any = yaml.safe_load(file.read_bytes()) or {}
            entries: list[dict[str, Any]] = content.get("contexts") or []
            names = [str(each["name"]) for each in entries]
        except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
            limit = f"cannot be read ({' '.join(str(error).split())})"
            raise RefusalError(
                "kubeconfig", str(file), limit, "correct it, or name another with --kubeconfig"
            ) from None
        yield from (_Context(name=name, kubeconfig=str(file.absolute())) for name in names)
