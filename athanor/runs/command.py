"""Commands that change runs, connect to them or need their stacks: `athanor stop`, `copy` and so on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable  # noqa: TC003 - of a table that is annotated
from functools import partial
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import JOBS
from athanor.runs.backend import engine_variables
from athanor.runs.cluster import Cluster
from athanor.runs.comparison import Comparison
from athanor.runs.control import resume, stop
from athanor.runs.copy import Place, folder_of, read_copy, run_copy
from athanor.runs.elsewhere import check_can_be_deleted
from athanor.runs.ending import exit_status
from athanor.runs.files import files, table
from athanor.runs.history import forget
from athanor.runs.job import ABORTED, main_container, running_pod
from athanor.runs.location import job_of_others, locate
from athanor.runs.past_lines import whole_series
from athanor.runs.ranks import pod_of_rank
from athanor.runs.rerun import rerun
from athanor.runs.series import Series, read_series
from athanor.runs.tensorboard import show
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs
from infra.workload_labels import JOB_LABEL, OWNER_LABEL
from workloads.pods import OUTPUT_PATH

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from athanor.runs.run_stack import RunStack

_ENGINE_SECONDS = 120


def platform_of(given: argparse.Namespace, cluster: Cluster) -> PlatformOutputs:
    """Return the platform's outputs: in the stack of --platform, else in the cluster.

    Raises:
        RefusalError: there is no such stack, its outputs are not a platform's, or as `Cluster.platform`.
    """
    return outputs_of_stack(given.platform) if given.platform else cluster.platform()


def outputs_of_stack(stack: str) -> PlatformOutputs:
    """Return the outputs of a platform's stack.

    Args:
        stack: Its name, such as organization/athanor/local.

    Raises:
        RefusalError: the user's Pulumi backend has no such stack or does not answer, or it is not a platform's.
    """
    words = ["pulumi", "stack", "output", "--json", "--non-interactive", "--stack", stack]
    variables = {**os.environ, **engine_variables()}
    try:
        done = subprocess.run(
            words, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=_ENGINE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _unread(stack, f"was not read in {_ENGINE_SECONDS} s") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"pulumi ended with {done.returncode}"])[-1]
        raise _unread(stack, f"cannot be read: {said.removeprefix('error: ')}")
    try:
        outputs = json.loads(done.stdout)
    except ValueError:
        raise _unread(stack, "cannot be read: pulumi wrote no JSON") from None
    return PlatformOutputs.parse(outputs, f"stack {stack}")


def _unread(stack: str, limit: str) -> RefusalError:
    return RefusalError("--platform", stack, limit, "name the stack as `pulumi stack ls --all` lists it")


_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


def shell(cluster: Cluster, pod: dict[str, Any], command: Sequence[str]) -> int:
    """Run a command in a pod, by default a shell; return its exit status."""
    terminal = ["--stdin", "--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else ["--stdin"]
    words = [*cluster.prefix, "exec", *terminal, f"--container={main_container(pod)}", pod["metadata"]["name"]]
    return subprocess.run([*words, "--", *(command or _SHELL)], check=False).returncode


def forward(cluster: Cluster, pod: dict[str, Any], ports: Sequence[str]) -> int:
    """Open ports of a pod on this machine's loopback address until Ctrl-C; return kubectl's exit status.

    Args:
        cluster: The cluster, in the job's namespace.
        pod: A running one.
        ports: Such as 6006, or 8080:6006 for another port here.
    """
    words = [*cluster.prefix, "port-forward", "--address=127.0.0.1", f"pod/{pod['metadata']['name']}", *ports]
    try:
        return subprocess.run(words, check=False).returncode
    except KeyboardInterrupt:
        return 0


def run(arguments: argparse.Namespace) -> int:
    """Run one of the commands; return its exit status.

    Args:
        arguments: as athanor/runs/arguments.py parses them.
    """
    as_json = getattr(arguments, "json", False)  # the interactive ones have no --json
    return exit_status(arguments.command, lambda: _run(arguments), as_json=as_json)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "delete" and arguments.forget:
        return _forget(arguments)  # its kubeconfig may be gone with the cluster
    return _COMMANDS[arguments.command](arguments, Cluster.of(arguments))


def _compare(arguments: argparse.Namespace, cluster: Cluster) -> int:
    from athanor.runs.stack import open_run, outputs_of  # noqa: PLC0415 - the engine's SDK takes half a second to import

    runs = (arguments.run, arguments.other)
    left, right = (outputs_of(open_run(run)) for run in runs)
    recorded = (left.get("arguments", ""), right.get("arguments", ""))
    series = tuple(_series_if_any(cluster, each) for each in (left, right))
    compared = Comparison.of(runs, recorded, (series[0], series[1]))
    lines = [json.dumps(compared.to_json())] if arguments.json else compared.lines()
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _series_if_any(cluster: Cluster, recorded: Mapping[str, str]) -> Series:
    """Return the metrics that a run has printed; nothing if it was never started, or its lines cannot be read."""
    if "job_name" not in recorded:
        return read_series("")
    try:
        return whole_series(cluster.within(recorded["namespace"]), recorded["job_name"])
    except RefusalError as error:
        sys.stderr.write(f"athanor compare: {error}\n")
        return read_series("")


def _stop(arguments: argparse.Namespace, cluster: Cluster) -> int:
    where, job_name = locate(cluster, arguments.run)
    stop(where, arguments.run, job_name)
    words = f"stopped: run {arguments.run}; to continue it: athanor resume {arguments.run}"
    return _done(arguments, job_name, ABORTED, words)


def _done(arguments: argparse.Namespace, job_name: str | None, state: str, words: str) -> int:
    """Say what was done to a run, for people or for programs."""
    if arguments.json:
        sys.stdout.write(f"{json.dumps({'run': arguments.run, 'job': job_name, 'state': state})}\n")
    else:
        sys.stderr.write(f"{words}\n")
    return 0


def _resume(arguments: argparse.Namespace, cluster: Cluster) -> int:
    where, job_name = locate(cluster, arguments.run)
    phase = resume(where, arguments.run, job_name)
    words = f"resumed: run {arguments.run} is {phase}; its logs: athanor logs --follow {arguments.run}"
    return _done(arguments, job_name, phase, words)


def _rerun(arguments: argparse.Namespace, cluster: Cluster) -> int:
    where, job_name = locate(cluster, arguments.run)
    folder = rerun(where, arguments.run, job_name, fresh=arguments.fresh, force=arguments.force)
    if arguments.json:
        started = {"run": arguments.run, "job": job_name, "namespace": where.namespace, "output": folder}
        sys.stdout.write(f"{json.dumps(started)}\n")
        return 0
    sys.stderr.write(
        f"started again: run {arguments.run}; its files are in /data/output/{folder}; its logs: athanor logs --follow"
        f" {arguments.run}\n"
    )
    return 0


def _shell(arguments: argparse.Namespace, cluster: Cluster) -> int:
    where, job_name = locate(cluster, arguments.run)
    return shell(where, _chosen_pod(arguments, where, job_name), arguments.program)


def _forward(arguments: argparse.Namespace, cluster: Cluster) -> int:
    where, job_name = locate(cluster, arguments.run)
    return forward(where, _chosen_pod(arguments, where, job_name), arguments.ports)


def _chosen_pod(arguments: argparse.Namespace, cluster: Cluster, job_name: str) -> dict[str, Any]:
    if arguments.rank is not None:
        return pod_of_rank(cluster, job_name, arguments.rank)
    return running_pod(cluster, job_name, arguments.pod or 0)


def _job_of_run(cluster: Cluster, run: str) -> tuple[str, str]:
    where, job_name = locate(cluster, run)
    return job_name, folder_of(where, job_name)


def _files(arguments: argparse.Namespace, cluster: Cluster) -> int:
    platform = platform_of(arguments, cluster)
    where, job_of_run = cluster.within(platform.namespace), partial(_job_of_run, cluster)
    done = files(where, platform, arguments.place, job_of_run, delete=arguments.delete)
    lines = [json.dumps(done)] if arguments.json else table(done.get("entries", ()))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if arguments.delete and not arguments.json:
        sys.stderr.write(f"deleted: {done['path']}\n")
    return 0


def _copy(arguments: argparse.Namespace, cluster: Cluster) -> int:
    platform = platform_of(arguments, cluster)
    job_of_run = partial(_job_of_run, cluster)
    asked = read_copy(arguments.source, arguments.target, job_of_run, replace=arguments.replace)
    done = run_copy(cluster.within(platform.namespace), platform, asked)
    sys.stdout.write(f"{json.dumps(done) if arguments.json else done['path']}\n")
    return 0


def _tensorboard(arguments: argparse.Namespace, cluster: Cluster) -> int:
    platform = platform_of(arguments, cluster)

    def place(run: str) -> Place:
        where, job_name = locate(cluster, run)
        return Place(path=f"{OUTPUT_PATH}/{folder_of(where, job_name)}", run=run, job_name=job_name)

    runs = {run: place(run) for run in arguments.runs}
    return show(cluster.within(platform.namespace), platform, runs, arguments.port)


def _delete(arguments: argparse.Namespace, cluster: Cluster) -> int:
    from athanor.runs.stack import outputs_of, remove  # noqa: PLC0415 - the engine's SDK takes half a second to import

    with cluster.variables() as variables:
        stack = _own_stack(arguments.run, cluster, variables)
        recorded = outputs_of(stack)
        check_can_be_deleted(cluster.within(recorded.get("namespace", "")), arguments.run, recorded)
        remove(stack)
    forget(arguments.run)
    return _done(arguments, recorded.get("job_name"), "deleted", f"deleted: run {arguments.run}")


def _own_stack(run: str, cluster: Cluster, variables: Mapping[str, str]) -> RunStack:
    """Return the stack of a run of this user's; only it can delete the run's objects and remember that.

    Raises:
        RefusalError: it is somebody else's job, or there is none.
    """
    from athanor.runs.stack import open_run  # noqa: PLC0415 - the engine's SDK takes half a second to import

    try:
        return open_run(run, variables)
    except RefusalError:
        declared = job_of_others(cluster, run)
        job = declared and declared[0].find(JOBS, declared[1])
        if not job:
            raise
        owner = job["metadata"].get("labels", {}).get(OWNER_LABEL, "another program")
        limit = f"is declared by a stack that is not in your Pulumi backend ({OWNER_LABEL}={owner})"
        fix = f"let its owner remove it from there; `athanor stop {run}` ends its pods, if you may"
        raise RefusalError("run", run, limit, fix) from None


def _forget(arguments: argparse.Namespace) -> int:
    """Delete the stack of a run alone, and say what its cluster may still have."""
    from athanor.runs.stack import drop, open_run, outputs_of  # noqa: PLC0415 - the engine's SDK takes half a second to import

    run = arguments.run
    stack = open_run(run)
    recorded = outputs_of(stack)
    drop(stack)
    forget(run)
    words = f"forgotten: run {run}; nothing was deleted in a cluster"
    if "job_name" in recorded:
        where = f"at {recorded['server']}" if "server" in recorded else "where it was started"
        words += (
            f"; the one {where} may still have its job {recorded['job_name']}, with its pods, its code and its network"
            f" policy, in namespace {recorded['namespace']}, labelled {JOB_LABEL}={run}: kubectl delete"
            f" jobs.batch.volcano.sh,networkpolicies,configmaps,secrets --namespace {recorded['namespace']}"
            f" --selector={JOB_LABEL}={run}"
        )
    return _done(arguments, recorded.get("job_name"), "forgotten", words)


_COMMANDS: dict[str, Callable[[argparse.Namespace, Cluster], int]] = {
    "compare": _compare,
    "stop": _stop,
    "resume": _resume,
    "rerun": _rerun,
    "delete": _delete,
    "shell": _shell,
    "port-forward": _forward,
    "copy": _copy,
    "files": _files,
    "tensorboard": _tensorboard,
}
