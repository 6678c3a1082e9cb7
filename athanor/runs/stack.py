"""The stack of one run: created, updated and removed through the Automation API, with an inline program."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import subprocess
import tempfile
import time
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pulumi import automation
from pulumi.automation import ConcurrentUpdateError

from athanor.runs.backend import SECRETS_VARIABLE, data_folder, engine_variables, own_passphrase
from athanor.runs.engine_error import EngineError
from athanor.runs.login_name import login_name
from athanor.runs.run_stack import RunStack
from athanor.runs.state_files import PROJECT, KnownRun
from infra.errors import RefusalError
from workloads.checks import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from pulumi.automation import Stack

Result = TypeVar("Result")
_HOLDER = re.compile(r"created by (?P<user>\S+)@(?P<host>\S+) \(pid (?P<pid>\d+)\)")
"""The engine's description of a lock's holder, a line for each (pulumi, pkg/backend/diy/lock.go)."""


def past_left_locks(stack: Stack, work: Callable[[], Result]) -> Result:
    """Run some work on a stack despite locks that killed commands of this machine left; return its result.

    Args:
        stack: The stack.
        work: Which the engine does.

    Raises:
        ConcurrentUpdateError: another command is at work, or nobody knows here whether it is.
    """
    try:
        return work()
    except ConcurrentUpdateError as error:
        if not _is_left(str(error)):
            raise
    with _one_at_a_time():
        try:  # another one may have been here first, and its own lock must stay
            return work()
        except ConcurrentUpdateError as error:
            if not _is_left(str(error)):
                raise
        stack.cancel()
        return work()


def _is_left(said: str) -> bool:
    """Return whether all locks are of processes of this user and machine that no longer run."""
    holders = list(_HOLDER.finditer(said))
    own = (login_name(), socket.gethostname())
    return bool(holders) and all(
        (each["user"], each["host"]) == own and not _runs(int(each["pid"])) for each in holders
    )


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@contextmanager
def _one_at_a_time() -> Generator[None]:
    folder = data_folder(os.environ)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "left-locks.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_Result = TypeVar("_Result")
_JOB = "kubernetes:batch.volcano.sh/v1alpha1:Job"
_ROUNDS_UNTIL_ENDED = 10
_SECONDS_BETWEEN_ROUNDS = 0.5
_SERVER = "Exception calling application: "
_NO_PLUGIN = re.compile(r"download and install resource plugin 'pulumi-resource-(?P<name>[a-z-]+)'")
_NOTHING_NEW = "update failed"
_STDERR = "stderr: "
"""Text before the engine's own words in an error of the Automation API, after its status and output."""
_UNREADABLE_SECRETS = "incorrect passphrase"
_FIXES = {
    "unknown stack ": "\nFix: name the platform's stack as `pulumi stack ls --all` lists it, or omit --platform: the"
    " namespace of the kubeconfig has a description of its platform",
    "stack is currently locked": "\nFix: wait until the other command about this run has ended; if it was killed,"
    " remove the lock that is named",
    _UNREADABLE_SECRETS: "\nFix: set PULUMI_CONFIG_PASSPHRASE, or PULUMI_CONFIG_PASSPHRASE_FILE, as it was when"
    " the run was started; if it is lost, `athanor delete RUN --forget` removes the run from your list and prints what"
    " deletes the rest of it in the cluster",
}
"""Fixes by words of the engine's messages."""
_COLOURS = re.compile(r"<\{%[^%]*%\}>")


def _nothing() -> None:
    """Declare nothing: for commands that only need the stack's state."""


def run_workspace(*, reads_stacks: bool = False) -> automation.LocalWorkspace:
    """Return the workspace of the runs. The engine is asked for its backend and its version: half a second.

    Args:
        reads_stacks: Whether the run's program reads another stack, which the engine decrypts with the shell's
            passphrase. Other runs have this user's, so that they can be deleted under any other of the shell's.

    Raises:
        RefusalError: as `engine_variables`.
        EngineError: the engine is too old.
    """
    settings = automation.ProjectSettings(name=PROJECT, runtime="python", main=str(Path.cwd()))
    variables = engine_variables()
    if not reads_stacks:
        variables |= own_passphrase(variables)
    # A workspace that is given no folder makes one and leaves it behind, and the Kubernetes provider leaves the
    # kubeconfig, with its credentials, among the temporary files.
    folder = tempfile.TemporaryDirectory(prefix="athanor-run-")
    own = {"TMPDIR": folder.name, **variables}
    try:
        workspace = automation.LocalWorkspace(folder.name, project_settings=settings, env_vars=own, program=_nothing)
    except automation.InvalidVersionError as error:
        folder.cleanup()
        raise EngineError(str(error)) from None
    weakref.finalize(workspace, folder.cleanup)
    return workspace


def open_run(
    name: str, variables: Mapping[str, str] | None = None, workspace: automation.LocalWorkspace | None = None
) -> RunStack:
    """Return the stack of a run that exists.

    Args:
        name: The run's name.
        variables: Environment of the engine in addition to this process's; what reaches the cluster is in it.
        workspace: From `run_workspace`, if it is there already.

    Raises:
        RefusalError: the run does not exist.
        EngineError: the backend cannot be read.
    """
    unknown = RefusalError("run", name, "is not in your Pulumi backend", "`athanor runs` lists yours")
    try:
        check_name("run", name)  # to the engine, a name with a slash is a stack of another project
    except RefusalError:
        raise unknown from None
    workspace = workspace or run_workspace()
    _add_variables(workspace, variables or {})
    try:
        return RunStack.select(name, workspace)
    except automation.StackNotFoundError:
        raise unknown from None
    except automation.CommandError as error:
        raise _failure([], error) from None


def create_run(name: str, workspace: automation.LocalWorkspace) -> RunStack:
    """Return the stack of a new run.

    Raises:
        RefusalError: there is one of that name.
        EngineError: the backend cannot be written.
    """
    try:
        return RunStack.create(name, workspace)
    except automation.StackAlreadyExistsError:
        fix = f"choose another, stop and replace it with --replace, or `athanor delete {name}` first"
        raise RefusalError("--name", name, "is the name of a run of yours", fix) from None
    except automation.CommandError as error:
        raise _failure([], error) from None
    except KeyboardInterrupt:  # the engine may have created it already; one that has resources is of another command
        with suppress(automation.CommandError):
            workspace.remove_stack(name)
        raise


def listed_runs() -> dict[str, KnownRun]:
    """Return the runs that the engine lists, by their names.

    Raises:
        RefusalError: as `engine_variables`.
        EngineError: the backend cannot be read.
    """
    try:
        stacks = run_workspace().list_stacks()
    except automation.CommandError as error:
        raise _failure([], error) from None
    return {
        stack.name.rpartition("/")[2]: KnownRun(updated=str(stack.last_update or ""), outputs=None) for stack in stacks
    }


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The resources that a run declares, and their location."""

    program: Callable[[], None]
    variables: Mapping[str, str]
    """Environment of the engine in addition to this process's; what reaches the cluster is in it."""


def apply(stack: RunStack, declaration: Declaration, *, look_first: bool = False) -> dict[str, Any]:
    """Update a run; return its outputs.

    Args:
        stack: The run's.
        declaration: What it declares.
        look_first: Whether the engine looks for the run's objects, and so creates again those that are gone.

    Raises:
        EngineError: with the messages of what went wrong, and nothing else.
    """
    errors: list[str] = []

    def note_event(event: automation.EngineEvent) -> None:
        stack.note(event)
        _note(event, errors)

    _add_variables(stack.workspace, declaration.variables)
    program = declaration.program
    try:
        done = _with_its_passphrase(
            stack, lambda: stack.up(program=program, refresh=look_first, on_event=note_event, suppress_outputs=True)
        )
    except automation.CommandError as error:
        raise _failure(errors, error) from None
    return {name: each.value for name, each in done.outputs.items()}


def preview(stack: automation.Stack, declaration: Declaration) -> None:
    """Check a run without starting it.

    Raises:
        EngineError: as `apply`.
    """
    errors: list[str] = []
    _add_variables(stack.workspace, declaration.variables)
    try:
        stack.preview(program=declaration.program, on_event=lambda event: _note(event, errors))
    except automation.CommandError as error:
        raise _failure(errors, error) from None


def remove(stack: automation.Stack) -> None:
    """Delete a run: its objects in the cluster, then its stack.

    Raises:
        EngineError: as `apply`; the stack is kept then.
    """
    errors: list[str] = []
    try:
        _with_its_passphrase(
            stack, lambda: stack.destroy(on_event=lambda event: _note(event, errors), suppress_outputs=True)
        )
        with suppress(automation.StackNotFoundError):  # another command that deletes it was quicker
            stack.workspace.remove_stack(stack.name)
    except automation.CommandError as error:
        raise _failure(errors, error) from None


def _with_its_passphrase(stack: automation.Stack, work: Callable[[], _Result]) -> _Result:
    """Run work that needs the secrets of a run's state, if necessary with the shell's passphrase.

    Runs have that which were started with --platform, or by an earlier release. The engine changes nothing before it
    has read and written the secrets.

    Raises:
        CommandError: as the work.
    """
    try:
        return past_left_locks(stack, work)
    except automation.CommandError as error:
        if _UNREADABLE_SECRETS not in str(error):
            raise
        variables = dict(stack.workspace.env_vars or {})
        if variables.pop(SECRETS_VARIABLE, None) is None:
            raise
        stack.workspace.env_vars = variables
    return past_left_locks(stack, work)


def drop(stack: automation.Stack) -> None:
    """Delete the state of a run, and nothing in a cluster.

    Raises:
        EngineError: as `apply`.
    """
    try:
        stack.workspace.remove_stack(stack.name, force=True)
    except automation.CommandError as error:
        raise _failure([], error) from None


def drop_if_nothing_exists(stack: automation.Stack) -> None:
    """Delete the state of a new run whose start was interrupted, unless the engine has begun to create its objects.

    The engine, which Ctrl-C reaches, too, may take a few seconds to end. It removes no state while it works on it, nor
    one with resources: to be refused for those means that it has ended, and the state stays as it is.
    """
    for _ in range(_ROUNDS_UNTIL_ENDED):
        try:
            stack.workspace.remove_stack(stack.name)
        except automation.ConcurrentUpdateError:
            time.sleep(_SECONDS_BETWEEN_ROUNDS)
        except automation.CommandError:
            with suppress(automation.CommandError):
                if not _has_begun(stack.export_stack().deployment or {}):
                    stack.workspace.remove_stack(stack.name, force=True)
            return
        else:
            return


def _has_begun(deployment: Mapping[str, Any]) -> bool:
    """Return whether a state has anything of a cluster, or that the engine was creating it."""
    in_cluster = [each for each in deployment.get("resources", []) if each["type"].startswith("kubernetes:")]
    return bool(in_cluster or deployment.get("pending_operations"))


def outputs_of(stack: automation.Stack) -> dict[str, str]:
    """Return the outputs of a run.

    Raises:
        EngineError: its state cannot be read, for example because the passphrase is another one.
    """
    try:
        return {name: str(each.value) for name, each in _with_its_passphrase(stack, stack.outputs).items()}
    except automation.CommandError as error:
        raise _failure([], error) from None


@dataclass(frozen=True, kw_only=True)
class DeclaredJob:
    """The job of a run as its state has it."""

    manifest: dict[str, Any]
    owner: str | None
    """Field manager that applied its fields; None if that is not recorded."""
    server: str
    """Address of its API server; empty if that is not recorded."""


def declared_job(stack: automation.Stack, job_name: str) -> DeclaredJob | None:
    """Return the job in a run's state; None without one.

    Raises:
        EngineError: as `outputs_of`.
    """
    try:
        resources: list[dict[str, Any]] = (stack.export_stack().deployment or {}).get("resources", [])
    except automation.CommandError as error:
        raise _failure([], error) from None
    jobs = [each for each in resources if each["type"] == _JOB and not each.get("delete")]
    job = next((each for each in jobs if each["inputs"]["metadata"]["name"] == job_name), None)
    if job is None:
        return None
    providers = [each for each in resources if job.get("provider", "").startswith(f"{each['urn']}::")]
    server = providers[0]["inputs"].get("clusterIdentifier", "") if providers else ""
    return DeclaredJob(manifest=job["inputs"], owner=job.get("outputs", {}).get("__fieldManager"), server=server)


def _note(event: automation.EngineEvent, errors: list[str]) -> None:
    said = event.diagnostic_event
    if said is not None and said.severity == "error" and said.message:
        message = _COLOURS.sub("", said.message).strip()
        if message not in errors:
            errors.append(message)


def _failure(errors: list[str], error: automation.CommandError) -> EngineError:
    # What the program raised comes once more, in a sentence of the server that ran it.
    own = [each for each in errors if not each.startswith(_SERVER) and each != _NOTHING_NEW]
    said = str(error)
    text = "\n".join(own or errors) or (said.partition(_STDERR)[2] or said).strip()
    return EngineError(text + _fix_of_plugin(text) + "".join(fix for words, fix in _FIXES.items() if words in text))


def _fix_of_plugin(text: str) -> str:
    """Return which Python package fits a provider that is installed, where the engine cannot download another."""
    missing = _NO_PLUGIN.search(text)
    if missing is None:
        return ""
    name, there = missing["name"], _installed_plugins()
    versions = [each["version"] for each in there if each.get("name") == name and each.get("version")]
    if not versions:
        return ""
    return f"\nFix: use the provider that is installed: pip install 'pulumi-{name}=={versions[-1]}'"


def _installed_plugins() -> list[dict[str, Any]]:
    done = subprocess.run(["pulumi", "plugin", "ls", "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else []


def _add_variables(workspace: automation.Workspace, variables: Mapping[str, str]) -> None:
    workspace.env_vars = {**(workspace.env_vars or {}), **variables}
