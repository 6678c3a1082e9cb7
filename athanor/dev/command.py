"""`athanor dev`: start or reuse a development pod, and work in it."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from athanor.dev import keeper
from athanor.dev.arguments import DEFAULT_IDLE
from athanor.dev.folder_lock import Successor, take, wait_for
from athanor.dev.pod_options import check_same, idle_seconds, in_words
from athanor.dev.session import Forwards, Session
from athanor.dev.sides import COULD_RUN, OwnFolder
from athanor.dev.ssh import PORT, public_key, start_server, write_entry
from athanor.dev.tree import ALIVE
from athanor.inspection.control_characters import printable
from athanor.inspection.objects import JOBS
from athanor.run.command import start
from athanor.run.description import beginning_of_name, describe, seconds_of
from athanor.run.pasted import split
from athanor.run.variables import with_env
from athanor.runs.backend import data_folder, random_file
from athanor.runs.cluster import Cluster
from athanor.runs.control import resume
from athanor.runs.elsewhere import check_can_be_deleted
from athanor.runs.ending import exit_status
from athanor.runs.follow import say_what_for
from athanor.runs.history import forget
from athanor.runs.job import (
    ABORTED,
    ENDED,
    exec_words,
    has_started,
    job_of,
    message_of,
    phase_of,
    pods_selector,
    readable,
    started_pod,
)
from athanor.runs.location import all_runs
from athanor.runs.rerun import output_folder, rerun
from athanor.runs.stack import open_run, outputs_of, remove
from infra.errors import RefusalError
from workloads.pods import OUTPUT_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from athanor.run.description import Description


def state_folder() -> Path:
    """Return where this machine keeps what it knows of the pods that it was connected to."""
    return data_folder(os.environ) / "dev"


def name_of(folder: Path) -> str:
    """Return the name of a folder's pod.

    The path alone would not do: two engineers with the same one, as in development containers, may share a backend,
    and their folders would be merged. Earlier releases used it alone: a pod of such a name is still this folder's where
    this machine has been connected to it.

    Raises:
        OSError: the data folder cannot be written.
    """
    path = str(folder)
    only_by_path = _name(folder, path)
    if any(state_folder().glob(f"{only_by_path}-*.json")):
        return only_by_path
    machine = random_file(data_folder(os.environ) / "machine").read_text(encoding="utf-8")
    return _name(folder, f"{machine}\n{path}")


def name_of_pod(folder: Path, asked: str | None, exists: Callable[[str], bool]) -> str:
    """Return the name of the pod that a folder has, or will have: there is one for each folder.

    Args:
        folder: The folder.
        asked: The name of --name, which later commands in the folder need not repeat.
        exists: Whether there is a run of a name.

    Raises:
        RefusalError: it has one of another name.
    """
    default = name_of(folder)
    file = state_folder() / f"{default}.name"
    before = file.read_text(encoding="utf-8") if file.exists() else default
    if asked in {None, before} and before == default:
        return default
    if not exists(before):
        file.unlink(missing_ok=True)
        before = asked or default
    if asked not in {None, before}:
        fix = f"omit it to connect, or end that pod first: athanor dev --stop --name {before}"
        raise RefusalError("--name", asked, f"this folder has a pod already, {before}", fix)
    if before != default:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(before, encoding="utf-8")
    return before


def _name(folder: Path, what: str) -> str:
    return f"dev-{beginning_of_name(folder.name)}-{hashlib.sha256(what.encode()).hexdigest()[:6]}"


_KEEPER = Path(keeper.__file__).read_text(encoding="utf-8")
_POLL_SECONDS = 1.0
_ROUNDS_OF_THE_OTHER = 20
"""Checks of whether the terminal that syncs a folder is done: it may copy at this moment."""
_MOST_NAMES = 3
"""Most names in a message."""
_SHELL = 'cd "$0" && { command -v bash >/dev/null && exec bash; exec sh; }'
_COMMAND = 'cd "$0" && exec "$@"'


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: as athanor/dev/arguments.py parses them.
    """
    hint = "interrupted: the pod stays until it is idle; the same command connects to it, and --stop ends it"
    return exit_status("dev", lambda: _run(arguments), hint)


def _run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.workdir).resolve()
    if arguments.stop and arguments.name:
        return _stop(arguments, arguments.name)
    name = name_of_pod(folder, arguments.name, lambda each: each in all_runs())
    if arguments.stop:
        return _stop(arguments, name)
    described = _described(arguments, name)
    if arguments.ssh:
        public_key(Path(arguments.ssh_key).expanduser())  # before a pod is started for it
    _program(arguments)  # refused now, for the same reason
    with wait_for(state_folder() / f"{name}.starting"):  # of two terminals, the second finds the first one's pod
        where, job_name = _pod(arguments, described)
    _await_pod(where, job_name)
    job = job_of(where, job_name)
    there = f"{OUTPUT_PATH}/{output_folder(job)}/dev"
    sys.stderr.write(f"the pod ends {in_words(idle_seconds(job))} after you leave, unless something works in it\n")
    return _work(arguments, where, job_name, (folder, there))


def _described(arguments: argparse.Namespace, name: str) -> Description:
    """Return the pod as a job.

    Raises:
        RefusalError: it is not a job that could run.
    """
    idle = seconds_of("--idle", arguments.idle or DEFAULT_IDLE)
    program = ["python3", "-c", _KEEPER, str(ALIVE), str(idle)]
    return describe(argparse.Namespace(**{**vars(arguments), "name": name, "program": program}))


def _program(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the words of the command that is to run in the pod; none for a shell.

    Raises:
        RefusalError: they are not those of one program.
    """
    return with_env(split(arguments.program)) if arguments.program else ()


def _pod(arguments: argparse.Namespace, described: Description) -> tuple[Cluster, str]:
    """Start the pod or find it; return the cluster in its namespace, and the name of its job."""
    cluster = Cluster.of(arguments)
    if described.name not in all_runs():
        return _started(arguments, described, cluster)
    outputs = outputs_of(open_run(described.name))
    where = cluster.within(outputs.get("namespace", cluster.namespace))
    job = where.find(JOBS, outputs.get("job_name", ""))
    if job is None:  # deleted, or its start was cut off
        return _started(argparse.Namespace(**{**vars(arguments), "replace": True}), described, cluster)
    check_same(arguments, described, outputs, job)
    if phase_of(job) == ABORTED:
        resume(where, described.name, outputs["job_name"])
    elif phase_of(job) in ENDED:
        rerun(where, described.name, outputs["job_name"], fresh=False, force=False)
    return where, outputs["job_name"]


def _started(arguments: argparse.Namespace, described: Description, cluster: Cluster) -> tuple[Cluster, str]:
    # A pod in place of a deleted one finds the files that were there and not here, such as large ones.
    started = start(arguments, described, cluster, keep_folder=True)
    assert started is not None
    return cluster.within(started.namespace), started.job_name


def _await_pod(cluster: Cluster, job_name: str) -> None:
    """Return when the pod runs; say what it waits for.

    Raises:
        RefusalError: it ended.
    """
    said: set[str] = set()
    while True:
        pods = cluster.items("pods", pods_selector(job_name))
        if any(has_started(pod) for pod in readable(pods)):
            return
        job = job_of(cluster, job_name)
        if phase_of(job) in ENDED:
            words = f"{phase_of(job)} {message_of(job)}".strip()
            raise RefusalError("pod", job_name, f"ended: {words}", "see `athanor logs`, or begin again with --stop")
        say_what_for(job, pods, said)
        time.sleep(_POLL_SECONDS)


def _work(arguments: argparse.Namespace, cluster: Cluster, job_name: str, folders: tuple[Path, str]) -> int:
    program = _program(arguments)
    alone = bool(program) or arguments.sync_only
    state = state_folder() / f"{job_name}.json"
    show = _say if alone else _say_problems
    with ExitStack() as stack:
        ssh = [f"{arguments.ssh}:{PORT}"] if arguments.ssh else []
        stack.enter_context(Forwards(cluster, job_name, [*arguments.forward, *ssh], show))
        own = OwnFolder(folders[0], arguments.accept)
        session, differing = Session(cluster, job_name, (own, folders[1]), state, show), tuple[str, ...]()
        lock = take(state.with_suffix(".lock"))
        if lock is None:
            sys.stderr.write("another athanor dev is syncing this folder; this one takes over when that one ends\n")
            say = _say if alone else _say_aside
            _await_equal(session)
            stack.enter_context(Successor(state.with_suffix(".lock"), session, say))
        else:
            stack.enter_context(lock)
            stack.enter_context(session)
            differing = session.settle()
            session.start()
        but = _named(differing, leaves_out=session.leaves_out)
        sys.stderr.write(f"{folders[0]} and {folders[1]} in the pod are in sync{but}\n")
        if ssh:
            _open_ssh(arguments, cluster, job_name, folders[1], state.with_suffix(".ssh_config"))
        if arguments.sync_only:
            return _until_interrupted()
        return _inside(program, cluster, job_name, folders[1])


def _await_equal(session: Session) -> None:
    """Return when the folders are in sync, which another terminal sees to.

    Raises:
        RefusalError: they still differ after some of its rounds: what runs in the pod would be the former code.
    """
    differing: tuple[str, ...] = ()
    for _ in range(_ROUNDS_OF_THE_OTHER):
        differing = session.compare()
        if not differing:
            return
        time.sleep(_POLL_SECONDS)
    fix = "see what the other athanor dev says, and end it if it hangs: this one then syncs the folder"
    raise RefusalError("files", _list(differing), "are not those in the pod", fix)


def _named(differing: Sequence[str], *, leaves_out: bool) -> str:
    """Return the end of a sentence that says what is not equal; empty if all is."""
    named = [*([_list(differing)] if differing else []), *(["what is left out"] if leaves_out else [])]
    return f", but for {' and '.join(named)}" if named else ""


def _list(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return printable(", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else ""))


def _open_ssh(arguments: argparse.Namespace, cluster: Cluster, job_name: str, folder: str, entry: Path) -> None:
    """Start the server in the pod, and say how to connect to it.

    Raises:
        RefusalError: as `start_server`.
    """
    key_file = Path(arguments.ssh_key).expanduser().resolve()
    server = start_server(cluster, job_name, folder, public_key(key_file))
    write_entry(entry, job_name, server, arguments.ssh, key_file)
    sys.stderr.write(
        f"ssh: ssh -F {shlex.quote(str(entry))} {job_name}\n"
        f'for editors, once, at the top of ~/.ssh/config: Include "{entry.parent}/*.ssh_config"\n'
        f"the host is {job_name}\n"
    )


def _inside(program: Sequence[str], cluster: Cluster, job_name: str, folder: str) -> int:
    """Run a shell or a command in the pod; return its exit status."""
    pod = started_pod(cluster, job_name)
    if pod is None:
        raise RefusalError("pod", job_name, "does not run any more", "run the command again")
    terminal = ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    words = [*exec_words(cluster, pod, *terminal), "sh", "-c"]
    own = [_COMMAND, folder, *program] if program else [_SHELL, folder]
    return subprocess.run([*words, *own], check=False).returncode


def _until_interrupted() -> int:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return 0


def _stop(arguments: argparse.Namespace, name: str) -> int:
    cluster = Cluster.of(arguments)
    with cluster.variables() as variables:
        stack = open_run(name, variables)
        recorded = outputs_of(stack)
        check_can_be_deleted(cluster.within(recorded.get("namespace", "")), name, recorded)
        job_name = recorded.get("job_name", "")
        remove(stack)
    forget(name)
    for file in state_folder().glob("*.name"):
        if file.read_text(encoding="utf-8") == name:
            file.unlink()
    for suffix in (".json", ".lock", ".ssh_config", ".known_hosts"):
        (state_folder() / f"{job_name}{suffix}").unlink(missing_ok=True)
    sys.stderr.write(f"stopped: {name}\n")
    return 0


def _say(words: str) -> None:
    sys.stderr.write(f"{printable(words)}\n")


def _say_problems(words: str) -> None:
    """Show what needs somebody; anything else would disturb the shell."""
    if words.startswith(("changed on both sides", "not copied", "not forwarded")) or COULD_RUN in words:
        _say_aside(words)


def _say_aside(words: str) -> None:
    """Show something next to a shell, whose terminal is in raw mode."""
    sys.stderr.write(f"\r\n{printable(words)}\r\n")
