"""Kubeconfig files: where kubectl finds them, and the extraction of one context into a file of its own.

Source: k8s.io/client-go 1.34, tools/clientcmd: loader.go (which files there are, and that files, and commands with a
slash, are relative to the kubeconfig that names them) and config.go.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

_IN_FOLDER = 'cd "$0" && exec "$@"'


def kubeconfig_files(named: str | None, environment: Mapping[str, str]) -> list[Path]:
    """Return the files that kubectl reads, the first of which decides.

    Args:
        named: As --kubeconfig has it; no others are read then.
        environment: Of kubectl.
    """
    if named:
        return [Path(named)]
    listed = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return listed or [Path.home() / ".kube" / "config"]


def standing_alone(view: str, files: list[Path], folder: Path) -> str:
    """Return a kubeconfig that means the same in any folder and to programs that start elsewhere.

    Args:
        view: What `kubectl config view --minify --flatten --raw --output=json` printed: certificates are in it, and
            files with tokens and commands that print them are not.
        files: Those that it is made of.
        folder: Where a command that prints a token runs: kubectl starts it in its own.
    """
    content: dict[str, Any] = json.loads(view)
    for entry in cast("list[dict[str, Any]]", content.get("users") or []):
        user: dict[str, Any] = entry.get("user") or {}
        if user.get("tokenFile"):
            user["tokenFile"] = _absolute(user["tokenFile"], entry["name"], files)
        command: dict[str, Any] | None = user.get("exec")
        if command:
            program: str = command["command"]
            if "/" in program:
                program = _absolute(program, entry["name"], files)
            arguments: list[str] = command.get("args") or []
            words = [program, *arguments]
            command |= {"command": "sh", "args": ["-c", _IN_FOLDER, str(folder), *words]}
    return json.dumps(content)


def _absolute(path: str, user: str, files: list[Path]) -> str:
    """Return a path that a user's entry names, which is relative to the file that has the entry."""
    if Path(path).is_absolute():
        return path
    return os.path.normpath(_origin(user, files).parent.absolute() / path)


def _origin(user: str, files: list[Path]) -> Path:
    """Return the file that has a user's entry: the first that has one of the name.

    Raises:
        RefusalError: none has it any more.
    """
    import yaml  # noqa: PLC0415 - of few kubeconfigs

    for file in files:
        try:
            content: dict[str, Any] = yaml.safe_load(file.read_bytes()) or {}
        except (OSError, yaml.YAMLError):  # kubectl, which has read them, leaves out those that do not exist
            continue
        users: list[dict[str, Any]] = content.get("users") or []
        if any(entry.get("name") == user for entry in users):
            return file
    raise RefusalError("kubeconfig", str(files[0]), f"has no user {user} any more", "run the command again")
