"""Put `pulumi` and `kubectl` into the virtual environment, set up for the local environment."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.engine import engine_defaults, engine_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.kubectl import Kubectl

_FOLDER = Path(sys.executable).parent


def install_commands(pulumi: Path, kubectl: Kubectl) -> None:
    """Write `.venv/bin/pulumi` and `.venv/bin/kubectl`: the real programs with backend, passphrase and cluster set.

    A variable that the user has set wins, so any backend, passphrase or kubeconfig of theirs still works.
    """
    _write("pulumi", pulumi, engine_defaults(), prepend_path=engine_path(pulumi))
    _write("kubectl", kubectl.program, {"KUBECONFIG": str(kubectl.kubeconfig)})


def remove_commands() -> None:
    """Remove what `install_commands` wrote."""
    for name in ("pulumi", "kubectl"):
        (_FOLDER / name).unlink(missing_ok=True)


def _write(name: str, program: Path, environment: dict[str, str], *, prepend_path: Sequence[str] = ()) -> None:
    lines = ["#!/bin/sh"]
    lines += [f': "${{{key}:={value}}}"; export {key}' for key, value in environment.items()]
    lines += [f"PATH={shlex.quote(':'.join(prepend_path))}:$PATH; export PATH"] if prepend_path else []
    lines += [f'exec {shlex.quote(str(program))} "$@"', ""]
    file = _FOLDER / name
    temporary = file.with_suffix(".new")
    temporary.write_text("\n".join(lines), encoding="utf-8")
    temporary.chmod(0o755)
    temporary.replace(file)
