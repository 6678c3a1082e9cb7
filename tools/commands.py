"""Put `pulumi` and `kubectl` into the virtual environment, set up for the local environment."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tools.engine import engine_path
from tools.paths import paths

# The folder is looked up when the command runs, not when it is written: several clones and homes share one virtual
# environment. Each variable is only a default, so any backend, passphrase or kubeconfig of the user's still works.
_PULUMI = """#!/bin/sh
home=${{ATHANOR_HOME:-${{XDG_STATE_HOME:-$HOME/.local/state}}/athanor}}
export PULUMI_HOME="${{PULUMI_HOME:-{pulumi_home}}}"
export PULUMI_BACKEND_URL="${{PULUMI_BACKEND_URL:-file://$home/pulumi}}"
export PULUMI_SKIP_UPDATE_CHECK="${{PULUMI_SKIP_UPDATE_CHECK:-true}}"
if [ -z "${{PULUMI_CONFIG_PASSPHRASE+set}}" ]; then
    export PULUMI_CONFIG_PASSPHRASE_FILE="${{PULUMI_CONFIG_PASSPHRASE_FILE:-$home/passphrase}}"
fi
# The Kubernetes provider leaves the kubeconfig, with its credentials, in a temporary file.
if [ -d "$home/tmp" ]; then export TMPDIR="$home/tmp"; fi
export PATH={path}:"$PATH"
exec {program} "$@"
"""
_KUBECTL = """#!/bin/sh
home=${{ATHANOR_HOME:-${{XDG_STATE_HOME:-$HOME/.local/state}}/athanor}}
export KUBECONFIG="${{KUBECONFIG:-$home/local/kubeconfig}}"
exec {program} "$@"
"""


def install_commands(pulumi: Path, kubectl: Path) -> None:
    """Write `.venv/bin/pulumi` and `.venv/bin/kubectl`: the real programs with backend, passphrase and cluster set."""
    path = ":".join(shlex.quote(folder) for folder in engine_path(pulumi))
    pulumi_home = paths().cache / "pulumi-home"
    _write("pulumi", _PULUMI.format(pulumi_home=pulumi_home, path=path, program=shlex.quote(str(pulumi))))
    _write("kubectl", _KUBECTL.format(program=shlex.quote(str(kubectl))))


def _write(name: str, text: str) -> None:
    file = Path(sys.executable).parent / name
    temporary = file.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o755)
    temporary.replace(file)
