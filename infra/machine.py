"""Local folders of the environment on this machine, and how its programs are found and started."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

LOCAL_CLUSTER_NAME = "local"
LOCAL_CONTEXT = f"athanor-{LOCAL_CLUSTER_NAME}"
LOCAL_NODE = f"{LOCAL_CLUSTER_NAME}-node-0"
_PROGRAMS = ("kubectl", "pulumi")


def cache_folder() -> Path:
    """Return the folder of built tools and downloads, keyed by version: $ATHANOR_CACHE, else the XDG cache folder's."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ATHANOR_CACHE") or Path(root) / "athanor").resolve()


def home_folder() -> Path:
    """Return the folder of the running local environment: $ATHANOR_HOME, else the XDG state folder's."""
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("ATHANOR_HOME") or Path(root) / "athanor").resolve()


def local_home() -> Path:
    """Return the folder of the local cluster that `make up` runs."""
    return home_folder() / LOCAL_CLUSTER_NAME


def find_programs() -> None:
    """Add the local environment's kubectl and pulumi to the end of PATH, if it lacks one of them."""
    programs = home_folder() / "bin"
    path = os.environ.get("PATH", "").split(os.pathsep)
    if programs.is_dir() and str(programs) not in path and not all(map(shutil.which, _PROGRAMS)):
        os.environ["PATH"] = os.pathsep.join([*filter(None, path), str(programs)])


def athanor_command(*words: str) -> tuple[list[str], dict[str, str]]:
    """Return the words and the variables that run this package's command in a process of its own.

    The program that imports the package may have found it by a path of its own, and the current folder may hold a file
    with the name of a module.
    """
    path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return [sys.executable, "-P", "-m", "athanor", *words], {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
