"""Installs `pulumi` and `kubectl` into the virtual environment, set up for the local environment."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tools.files import write_atomically
from tools.paths import paths
from tools.stacks.engine import engine_path
from tools.stacks.state_file import backend_url

# The folder is looked up when the command runs, not when it is written: several clones and homes share one virtual
# environment. Each variable is only a default, so any backend, passphrase or kubeconfig of the user's still works.
_PULUMI = """#!/bin/sh
home=${{ATHANOR_HOME:-${{XDG_STATE_HOME:-$HOME/.local/state}}/athanor}}
export PULUMI_HOME="${{PULUMI_HOME:-{pulumi_home}}}"
export PULUMI_BACKEND_URL="${{PULUMI_BACKEND_URL:-{backend_url}}}"
export PULUMI_SKIP_UPDATE_CHECK="${{PULUMI_SKIP_UPDATE_CHECK:-true}}"
if [ -z "${{PULUMI_CONFIG_PASSPHRASE+set}}" ]; then
    export PULUMI_CONFIG_PASSPHRASE_FILE="${{PULUMI_CONFIG_PASSPHRASE_FILE:-$home/passphrase}}"
fi
{direct}
# The Kubernetes provider leaves the kubeconfig, with its credentials, in a temporary file.
if [ -d "$home/tmp" ]; then export TMPDIR="$home/tmp"; fi
export PATH={path}:"$PATH"
if [ -n "${{ALICLOUD_SECURITY_TOKEN:-}}${{ALIBABA_CLOUD_SECURITY_TOKEN:-}}${{ALIBABACLOUD_SECURITY_TOKEN:-}}" ]; then
    exec {python} -c {with_temporary_key} {program} "$@"
fi
exec {program} "$@"
"""
_WITH_TEMPORARY_KEY = """import os, sys
try:
    from athanor.account.temporary_key import main
except ImportError:  # the project of a team that installed nothing
    os.execv(sys.argv[1], sys.argv[1:])
main(sys.argv[1:])"""
_KUBECTL = """#!/bin/sh
home=${{ATHANOR_HOME:-${{XDG_STATE_HOME:-$HOME/.local/state}}/athanor}}
export KUBECONFIG="${{KUBECONFIG:-$home/local/kubeconfig}}"
{direct}
exec {program} "$@"
"""

# As `proxies.reach_local_clusters_directly` does it for our own commands.
_DIRECT = r"""networks=$(sed -n 's/^ *"block": "\([^"]*\)".*/\1/p' "$home"/*/state.json 2>/dev/null | paste -sd, -)
own="${NO_PROXY:-${no_proxy:-}}"
export NO_PROXY="${own:+$own,}localhost,127.0.0.1${networks:+,$networks}"
export no_proxy="$NO_PROXY"
"""


def install_commands(pulumi: Path, kubectl: Path, folder: Path | None = None) -> None:
    """Write `.venv/bin/pulumi` and `.venv/bin/kubectl`: the real programs with backend, passphrase and cluster set.

    Args:
        pulumi: The program.
        kubectl: The program.
        folder: Where to write them instead.
    """
    folder = folder or Path(sys.executable).parent
    folder.mkdir(parents=True, exist_ok=True)
    path = ":".join(shlex.quote(folder) for folder in engine_path(pulumi))
    pulumi_home = paths().cache / "pulumi-home"
    state = backend_url("$home/pulumi")
    checked = {"python": shlex.quote(sys.executable), "with_temporary_key": shlex.quote(_WITH_TEMPORARY_KEY)}
    words = {
        **checked,
        "pulumi_home": pulumi_home,
        "backend_url": state,
        "path": path,
        "program": shlex.quote(str(pulumi)),
    }
    _write(folder / "pulumi", _PULUMI.format(**words, direct=_DIRECT))
    _write(folder / "kubectl", _KUBECTL.format(program=shlex.quote(str(kubectl)), direct=_DIRECT))


def _write(file: Path, text: str) -> None:
    write_atomically(file, text, mode=0o755)
