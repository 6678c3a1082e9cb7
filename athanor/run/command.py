"""`athanor run`: describe, print, start, and optionally follow a job."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pulumi
import pulumi_kubernetes as kubernetes

from athanor.inspection.objects import JOBS
from athanor.inspection.queues import place_of_new
from athanor.inspection.reader import read_line
from athanor.run.description import describe
from athanor.run.fit import check_fits
from athanor.run.needs import check_needs
from athanor.run.options import refused_in_options
from athanor.run.program_text import program_in_cluster, program_in_stack
from athanor.run.recorded import recorded
from athanor.run.run_file import as_yaml
from athanor.runs.background import meanwhile
from athanor.runs.cluster import Cluster
from athanor.runs.elsewhere import check_is_here, host
from athanor.runs.ending import exit_status
from athanor.runs.engine_error import EngineError
from athanor.runs.follow import follow_to_the_end
from athanor.runs.history import Seen
from athanor.runs.job import GOING_ON, phase_of
from athanor.runs.login_name import login_name
from athanor.runs.prices import amount, gpu_prices
from athanor.runs.stack import (
    Declaration,
    apply,
    create_run,
    drop_if_nothing_exists,
    open_run,
    outputs_of,
    preview,
    remove,
    run_workspace,
)
from athanor.runs.state_files import PROJECT
from infra.errors import RefusalError
from infra.instance_types import PRICES_AS_OF
from infra.outputs import PlatformOutputs
from infra.platform import Platform
from infra.workload_labels import JOB_LABEL, OWNER_LABEL
from workloads.accelerators import WholeGpus
from workloads.git_source import GitSource
from workloads.owner import owner_label
from workloads.volcano_job import priority_class

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from athanor.inspection.objects import Object, Snapshot
    from athanor.run.description import Description
    from athanor.runs.run_stack import RunStack
    from infra.offers import PlatformOffers
    from workloads.local_folder import LocalFolder


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """The existing run whose name a new run takes; empty if there is none."""

    namespace: str = ""
    job_name: str = ""
    """Empty also where the start of the run before was cut off."""
    repetition: int = 0
    """Number of the run with the same content: without another number, its job would have the same name."""
    phase: str | None = None
    """Phase of its job; None if the cluster has none."""

    @classmethod
    def of(cls, name: str, recorded: Mapping[str, str], cluster: Cluster) -> Self:
        """Look at the job of a run.

        Args:
            name: The run's name.
            recorded: The outputs of its stack.
            cluster: Where the next one is to start.

        Raises:
            RefusalError: the run is of another cluster, or this one does not answer, or not to this user.
        """
        if "job_name" not in recorded:
            return cls()
        namespace, job_name = recorded["namespace"], recorded["job_name"]
        where = cluster.within(namespace)
        check_is_here(where, name, recorded)
        job = where.find(JOBS, job_name)
        return cls(
            namespace=namespace,
            job_name=job_name,
            repetition=int(recorded.get("repetition", 0)),
            phase=phase_of(job) if job else None,
        )

    @property
    def is_gone(self) -> bool:
        """Whether there was a job that no longer exists in the cluster, which the engine does not know."""
        return bool(self.job_name) and self.phase is None

    @property
    def goes_on(self) -> bool:
        """Whether its job runs or waits to run."""
        return self.phase in GOING_ON

    def next_repetition(self, *, keep_folder: bool) -> int:
        """Return the number that a job of the same content gets: another one if it has to begin from the beginning.

        Args:
            keep_folder: Give a job that is gone its former name, and with it the folder of its files.
        """
        if not self.job_name or self.goes_on or (self.is_gone and keep_folder):
            return self.repetition
        return self.repetition + 1

    def is_still(self, outputs: Mapping[str, str]) -> bool:
        """Return whether an update, whose outputs these are, left the running job alone."""
        now = (outputs["namespace"], outputs["job_name"])
        return self.goes_on and now == (self.namespace, self.job_name)


def estimate(described: Description, platform: PlatformOutputs, line: Snapshot | None) -> list[str]:
    """Return the lines that are shown before a run starts.

    Args:
        described: The run.
        platform: Where it runs.
        line: Who waits, with their priorities; None if that may not be read.

    Raises:
        RefusalError: the platform has no such PriorityClass.
    """
    args, pods = described.args, described.workers
    resources = args.resources
    asked = resources.accelerator
    gpus = asked.count if isinstance(asked, WholeGpus) else 0
    each = f"{resources.cpu} CPU, {resources.memory_size} memory" + (
        f", {gpus} {'GPU' if gpus == 1 else 'GPUs'}" if gpus else ""
    )
    lines = [
        f"{described.kind} {described.name}: {pods} {'pod' if pods == 1 else 'pods'} of {each}",
        f"queue: {_queue(described, platform, line)}; pool: {args.pool or 'any that fits'}",
    ]
    if gpus:
        lines.append(f"GPUs: {pods * gpus} in all, {_price(pods * gpus, args.pool, platform.platform_offers)}")
    return [*lines, _code(described.args.source), *described.notes]


def _queue(described: Description, platform: PlatformOutputs, line: Snapshot | None) -> str:
    """Return the queue and the place that the run would have in it."""
    args, queue = described.args, str(described.args.queue or platform.queue)
    if line is None:
        return queue
    known = platform.platform_offers.priority_classes
    asked = priority_class(args.priority_class, platform.namespace, known) if args.priority_class else ""
    place, waiting = place_of_new(line, queue, asked)
    words = f"{queue}, number {place} of {waiting} that wait" if waiting > 1 else f"{queue}, where no other job waits"
    return f"{words}, as far as you may see" if line.unreadable else words


def _code(source: GitSource | LocalFolder | None) -> str:
    if source is None:
        return "code: the image's"
    if isinstance(source, GitSource):
        return f"code: {source.repository} at {source.commit or source.tag or source.branch or 'its default branch'}"
    archive = source.archive
    size = f"{len(archive.content) / 1024:,.0f} KiB"
    files = "1 file" if archive.files == 1 else f"{archive.files} files"
    left_out = f"; left out by git's rules: {archive.left_out}" if archive.left_out else ""
    return f"code: {files}, {size}, sha256 {archive.digest[:12]}{left_out}"


def _price(gpus: int, pool: str | None, offers: PlatformOffers) -> str:
    """Return the GPUs' part of their nodes' list prices, from the cheapest to the dearest pool that has GPUs."""
    prices = gpu_prices(offers, pool)
    if prices is None:
        return "price not known"
    return f"{amount(gpus * prices[0], gpus * prices[1])} CNY/h (list price on demand, {PRICES_AS_OF})"


@dataclass(frozen=True, kw_only=True)
class Started:
    """A run that is in the cluster now."""

    namespace: str
    job_name: str
    phase: str | None = None
    """Phase of the job if one with the same content was there already and nothing was started; else None."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: as athanor/run/arguments.py parses them.
    """
    hint = "interrupted: `athanor runs` shows whether the run was started"
    return exit_status("run", lambda: _run(arguments), hint, as_json=arguments.json)


def _run(arguments: argparse.Namespace) -> int:
    described = describe(arguments)
    if arguments.print_yaml:
        sys.stdout.write(as_yaml(arguments, arguments.parser))
        return 0
    if arguments.print_program:
        text = _printed(arguments, described)
        sys.stderr.writelines(f"{note}\n" for note in described.notes)
        sys.stdout.write(json.dumps({"program": text}) + "\n" if arguments.json else text)
        return 0
    cluster = Cluster.of(arguments)
    started = start(arguments, described, cluster)
    if started is not None:
        return _report(arguments, cluster.within(started.namespace), described.name, started)
    if arguments.json:
        sys.stdout.write(json.dumps(_result(described.name, None, None, is_new=False)) + "\n")
    return 0


def _result(name: str, job: str | None, namespace: str | None, *, is_new: bool) -> dict[str, Any]:
    return {"run": name, "job": job, "namespace": namespace, "started": is_new}


def _printed(arguments: argparse.Namespace, described: Description) -> str:
    """Return the program of a run, which finds the platform as the command would: by its stack, or in the cluster."""
    if arguments.platform:
        return program_in_stack(described, arguments.platform)
    cluster = Cluster.of(arguments)
    return program_in_cluster(described, cluster.within(cluster.platform().namespace), arguments.kubeconfig)


def start(
    arguments: argparse.Namespace, described: Description, cluster: Cluster, *, keep_folder: bool = False
) -> Started | None:
    """Start a run, or with --preview only look whether it could start.

    Args:
        arguments: Those of `athanor run`.
        described: What they describe.
        cluster: The cluster that they name.
        keep_folder: With --replace: let a job that is gone continue with its files, instead of from the beginning.

    Returns:
        What is in the cluster; None after a preview.

    Raises:
        RefusalError: it is not a job that could run, or there is one of that name.
        EngineError: the engine or the cluster did not do it.
    """
    workspace = meanwhile(partial(run_workspace, reads_stacks=bool(arguments.platform)))
    if described.source is not None:
        with refused_in_options():
            _ = described.source.archive
    # Read and checked here: an engine that has started would only bury a refusal.
    known = None if arguments.platform else cluster.platform()
    announce = partial(_announcement, arguments, described, cluster)
    announcement = None
    if known is not None:
        _check(arguments, described, known, cluster)
        announcement = meanwhile(partial(announce, known))
    stack, before = None, Replaced()
    if arguments.replace:
        stack = open_run(described.name, workspace=workspace())
        before = Replaced.of(described.name, outputs_of(stack), cluster)
    args = replace(described.args, rerun=before.next_repetition(keep_folder=keep_folder))
    program = _program(replace(described, args=args), cluster, known or arguments.platform, announce)
    with cluster.variables() as variables:
        declaration = Declaration(program=program, variables=variables)
        stack = stack or create_run(described.name, workspace())
        outputs = _apply(arguments, stack, declaration, announcement, look_first=before.is_gone)
    if outputs is None:
        return None
    Seen(outputs=outputs).keep(described.name)
    phase = before.phase if before.is_still(outputs) else None
    return Started(namespace=outputs["namespace"], job_name=outputs["job_name"], phase=phase)


def _apply(
    arguments: argparse.Namespace,
    stack: RunStack,
    declaration: Declaration,
    announcement: Callable[[], list[str]] | None,
    *,
    look_first: bool,
) -> dict[str, Any] | None:
    """Start the run and return its outputs, or only look whether it could start; a new run that is refused is gone."""
    try:
        if announcement is not None:
            sys.stderr.writelines(announcement())
        if not arguments.preview:
            return apply(stack, declaration, look_first=look_first)
        preview(stack, declaration)
    except (EngineError, RefusalError):
        if not arguments.replace:
            remove(stack)
        raise
    except KeyboardInterrupt:
        if not arguments.replace:  # else its name could be taken by a run of which nothing exists
            drop_if_nothing_exists(stack)
        raise
    if not arguments.replace:
        remove(stack)
    return None


def _report(arguments: argparse.Namespace, cluster: Cluster, name: str, started: Started) -> int:
    job, is_new = started.job_name, started.phase is None
    if arguments.json:
        sys.stdout.write(json.dumps(_result(name, job, cluster.namespace, is_new=is_new)) + "\n")
        sys.stdout.flush()
        return follow_to_the_end(cluster, name, job, as_json=True) if arguments.follow else 0
    which = f"run {name}, job {job} in namespace {cluster.namespace}"
    unchanged = f"unchanged: {which}, is {started.phase} already; nothing was started\n"
    sys.stderr.write(f"started: {which}\n" if is_new else unchanged)
    if arguments.follow:
        return follow_to_the_end(cluster, name, job)
    sys.stderr.write(f"its logs: athanor logs --follow {name}; to stop and delete it: athanor delete {name}\n")
    return 0


def _program(
    described: Description,
    cluster: Cluster,
    platform: PlatformOutputs | str,
    announce: Callable[[PlatformOutputs], list[str]],
) -> Callable[[], None]:
    """Return the run's program.

    Args:
        described: The run.
        cluster: Its cluster.
        platform: What the platform offers, or the name of the stack that says so to the engine alone.
        announce: Checks and describes the run on the platform of a stack, before anything is declared there.
    """

    def look(outputs: PlatformOutputs) -> PlatformOutputs:
        sys.stderr.writelines(announce(outputs))
        return outputs

    def program() -> None:
        # Neither credentials nor a path in the state: the provider finds the kubeconfig in its environment each time.
        # Without the empty text, the SDK would write the path there that this process has in its own.
        provider = kubernetes.Provider(
            "cluster", kubeconfig="", context=cluster.context, cluster_identifier=cluster.server
        )
        outputs = (
            PlatformOutputs.read(pulumi.StackReference(platform)).apply(look)
            if isinstance(platform, str)
            else pulumi.Output.from_input(platform)
        )
        where = Platform.from_outputs(outputs, provider)
        job = described.declare(described.name, where, described.args)
        pulumi.export("job_name", job.job_name)
        pulumi.export("namespace", where.namespace)
        pulumi.export("server", host(cluster.server))
        pulumi.export("arguments", json.dumps(recorded(described), sort_keys=True))
        pulumi.export("by", login_name())
        pulumi.export("repetition", str(described.args.rerun))

    return program


def _announcement(
    arguments: argparse.Namespace, described: Description, cluster: Cluster, outputs: PlatformOutputs
) -> list[str]:
    """Return the lines that say what a run takes and how long it may wait.

    Raises:
        RefusalError: it cannot run there, or not under its name.
    """
    where = cluster.within(outputs.namespace)
    if arguments.platform:  # known only now
        _check(arguments, described, outputs, cluster)
    if not arguments.replace:
        _check_name(described.name, where)
    return [f"{line}\n" for line in estimate(described, outputs, _line(where))]


def _check(arguments: argparse.Namespace, described: Description, outputs: PlatformOutputs, cluster: Cluster) -> None:
    """Refuse a job that the platform cannot run, or that names what its namespace does not have."""
    nodes = _nodes(cluster) if described.args.node_labels or not outputs.platform_offers.pools else ()
    if waits_for := check_fits(arguments, described, outputs, nodes):
        sys.stderr.write(f"{waits_for}\n")
    check_needs(described.args, cluster.within(outputs.namespace))


def _nodes(cluster: Cluster) -> Sequence[Object]:
    """Return the cluster's nodes; none where this user may not list them."""
    try:
        return cluster.listed("nodes", None)
    except RefusalError:
        return ()


def _line(cluster: Cluster) -> Snapshot | None:
    """Return who waits in the queues; None where this user may not know: that stops no run."""
    try:
        return read_line(cluster.asked, cluster.namespace)
    except RefusalError:
        return None


def _check_name(name: str, cluster: Cluster) -> None:
    """Refuse the name of a run whose stack is elsewhere: the two would change each other's objects."""
    labels = f"{JOB_LABEL}={name},{OWNER_LABEL}={owner_label(PROJECT, name)}"
    if cluster.items(JOBS, labels):
        limit = f"namespace {cluster.namespace} has a run of that name, which is not in your Pulumi backend"
        raise RefusalError("--name", name, limit, "choose another")
