"""Conversion of a command line into a job's class and arguments, with errors in terms of the command line."""

from __future__ import annotations

import argparse
import re
import secrets
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, get_args

from athanor.run.mpirun import read_mpi
from athanor.run.options import refused_in_options
from athanor.run.pasted import Pasted, read_program, read_tensorflow, split
from athanor.run.script import SCRIPT_SUFFIXES, check_has_files, check_requirements, check_script
from athanor.run.shell_words import ShellNeededError, shell_words
from athanor.run.torchrun import read_pytorch
from athanor.run.variables import with_env
from infra.errors import RefusalError
from infra.job_source import COMMIT
from workloads.batch import BatchJob, BatchJobArgs
from workloads.checks import check_name
from workloads.egress import Egress
from workloads.git_source import GitSource
from workloads.job_args import LONGEST_SECONDS
from workloads.job_secrets import SecretFiles
from workloads.local_folder import LocalFolder
from workloads.mpi import MPIJob, MPIJobArgs
from workloads.placement import TaintEffect, Toleration
from workloads.pods import ClaimMount
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.tensorflow import ParameterServers, TensorFlowJob, TensorFlowJobArgs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.platform import Platform
    from workloads.job import Job
    from workloads.job_args import JobArgs

Args = PyTorchJobArgs | MPIJobArgs | TensorFlowJobArgs | BatchJobArgs
Source = LocalFolder | GitSource | None
Kind = tuple[type[PyTorchJob] | type[MPIJob] | type[TensorFlowJob] | type[BatchJob], Args, Pasted]
_LONGEST_STEM = 30
_TIME = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>[smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PORTS = re.compile(r"[0-9]{1,5}(,[0-9]{1,5})*")


@dataclass(frozen=True, kw_only=True)
class Description:
    """A job that can be declared."""

    name: str
    kind: str
    """Name of its class."""
    declare: Callable[[str, Platform, Any], Job]
    """The class."""
    args: JobArgs
    source: LocalFolder | None
    """The folder that is sent; None: the code is the image's, or in git."""
    workers: int
    left_out: tuple[str, ...] = ()
    """Parts of the command that are ignored: options and variables that the job sets itself."""

    @property
    def notes(self) -> list[str]:
        """Lines that name words of the command without effect; none if all have one."""
        words = f"left out of the command, because the job sets this itself: {'; '.join(self.left_out)}"
        return [words] if self.left_out else []


def describe(arguments: argparse.Namespace) -> Description:
    """Return the job of a command line.

    Raises:
        RefusalError: it is not a job that could run.
    """
    arguments = argparse.Namespace(**{**vars(arguments), "program": list(split(arguments.program))})
    name = arguments.name or default_name(arguments.program)
    with refused_in_options():
        source = None if arguments.no_code or arguments.git else LocalFolder(path=arguments.workdir)
        if source is not None:
            check_has_files(source)
        check_name("job name", name)
        _check_parameter_servers(arguments)
        job, args, pasted = _KINDS[arguments.kind](arguments, _git_source(arguments) if arguments.git else source)
        if source is not None:
            check_script(pasted.program, source, under_torchrun=isinstance(args, PyTorchJobArgs))
            check_requirements(args.requirements, source)
    return Description(
        name=name, kind=job.__name__, declare=job, args=args, source=source, workers=arguments.workers,
        left_out=pasted.left_out,
    )  # fmt: skip


def _pytorch(given: argparse.Namespace, source: Source) -> Kind:
    pasted = read_pytorch(given.program)
    _check_workers(given, pasted)
    processes, own = _processes(given, pasted), _elastic(given)
    common = _common(given, pasted, source)
    args = PyTorchJobArgs(
        program=pasted.program, workers=given.workers, processes_per_worker=processes, **own, **common
    )
    return PyTorchJob, args, pasted


def _mpi(given: argparse.Namespace, source: Source) -> Kind:
    _check_not_elastic(given)
    pasted = read_mpi(given.program)
    options: dict[str, Any] = {"mpirun_options": pasted.options} if pasted.options else {}
    if pasted.bind_to:
        options["bind_to"] = pasted.bind_to
    common = _common(given, pasted, source)
    slots = _slots(given, pasted)
    args = MPIJobArgs(program=pasted.program, workers=given.workers, slots_per_worker=slots, **options, **common)
    ranks, each = pasted.sizes.get("ranks", args.ranks), args.ranks_per_worker
    if ranks != args.ranks:
        processes = "process" if each == 1 else "processes"
        limit = f"{args.workers} workers with {each} {processes} each are {args.ranks} ranks"
        raise RefusalError("-np", ranks, limit, "correct --workers, --gpus or --processes, or omit -np")
    return MPIJob, args, pasted


def _tensorflow(given: argparse.Namespace, source: Source) -> Kind:
    _check_not_elastic(given)
    _check_single_process(given)
    pasted = read_tensorflow(given.program)
    servers = {"parameter_servers": _parameter_servers(given)} if given.ps is not None else {}
    args = TensorFlowJobArgs(program=pasted.program, workers=given.workers, **servers, **_common(given, pasted, source))
    return TensorFlowJob, args, pasted


def _batch(given: argparse.Namespace, source: Source) -> Kind:
    _check_not_elastic(given)
    _check_single_process(given)
    pasted = read_program(given.program)
    args = BatchJobArgs(command=pasted.program, pods=given.workers, **_common(given, pasted, source))
    return BatchJob, args, pasted


_KINDS = {"pytorch": _pytorch, "mpi": _mpi, "tensorflow": _tensorflow, "batch": _batch}


def _common(given: argparse.Namespace, pasted: Pasted, source: Source) -> dict[str, Any]:
    """Return the given arguments that every kind of job takes; the classes have the defaults."""
    asked = {
        "cpu": given.cpu, "memory": given.memory, "gpus": given.gpus or None, "shared_memory": given.shared_memory,
    }  # fmt: skip
    named = {
        "image": given.image,
        # with variables of its own: the job's would be the program's, too
        "prepare": _prepare(given.prepare) if given.prepare else None,
        "cache": given.cache,
        "run_as_user": given.run_as_user,
        "read_only_root": False if given.writable_root else None,
        "queue": given.queue,
        "requirements": given.requirements,
        "priority_class": given.priority,
        "pool": given.pool,
        "node_labels": dict(_label(word) for word in given.selector) or None,
        "tolerations": tuple(map(_toleration, given.toleration)) or None,
        "env": {**pasted.env, **dict(given.env)} or None,
        "secrets": tuple(word for word in given.secret if ":" not in word) or None,
        "secret_files": tuple(_secret_files(word) for word in given.secret if ":" in word) or None,
        "egress": tuple(_egress(word) for word in given.egress) or None,
        "volumes": tuple(_volume(word) for word in given.volume) or None,
    }
    return {
        "source": source,
        "resources": Resources(**{name: value for name, value in asked.items() if value is not None}),
        **{name: value for name, value in named.items() if value is not None},
        **_limits(given),
    }


def _limits(given: argparse.Namespace) -> dict[str, int]:
    """Return how often and how long it may run: with a deadline once, because its time starts again with each start."""
    restarts, deadline = given.max_restarts, given.deadline
    if deadline is not None and restarts is None:
        restarts = 0
    limits = {} if deadline is None else {"deadline_seconds": seconds_of("--deadline", deadline)}
    return limits if restarts is None else {**limits, "max_restarts": restarts}


def seconds_of(option: str, text: str) -> int:
    """Return a time in seconds.

    Args:
        option: Which has it.
        text: Such as 90m.

    Raises:
        RefusalError: it is not such a time, or one that no job may name.
    """
    match, fix = _TIME.fullmatch(text), "write it as 90m, 2h or 1d"
    if match is None:
        raise RefusalError(option, text, "must be a whole number of s, m, h or d", fix)
    seconds = int(match["number"]) * _SECONDS[match["unit"]]
    if not 1 <= seconds <= LONGEST_SECONDS:
        raise RefusalError(option, text, f"must be 1s to {LONGEST_SECONDS // _SECONDS['d']}d", fix)
    return seconds


def _secret_files(word: str) -> SecretFiles:
    """Return the folder of NAME:/PATH."""
    secret, _, path = word.partition(":")
    return SecretFiles(secret=secret, path=path)


def _label(word: str) -> tuple[str, str]:
    """Return the label of LABEL=VALUE."""
    name, equals, value = word.partition("=")
    if not equals:
        raise RefusalError("--selector", word, "must be LABEL=VALUE", "write gpu-type=a100")
    return name, value


def _toleration(word: str) -> Toleration:
    """Return the toleration of KEY[=VALUE][:EFFECT], as kubectl writes taints."""
    taint, colon, effect = word.rpartition(":")
    key, equals, value = (taint if colon else word).partition("=")
    if colon and effect not in get_args(TaintEffect):
        raise RefusalError("--toleration", word, f"its effect must be one of {', '.join(get_args(TaintEffect))}",
                           f"write {key}:NoSchedule, or {key} for any effect")  # fmt: skip
    given: dict[str, Any] = {**({"value": value} if equals else {}), **({"effect": effect} if colon else {})}
    return Toleration(key=key, **given)


def _prepare(text: str) -> Sequence[str]:
    """Return the words of --prepare; what only a shell can do, a shell does."""
    try:
        return with_env(shell_words("--prepare", text))
    except ShellNeededError:
        return ("sh", "-c", text)


def _git_source(given: argparse.Namespace) -> GitSource:
    """Return the code of ADDRESS[@REF]; an @ before the path is that of a user name."""
    place = re.match(r"(?:\w[\w+]*://)?[^/:]*[/:]?", given.git)
    start = place.end() if place else 0
    path, at, reference = given.git[start:].partition("@")
    which = {"commit" if COMMIT.fullmatch(reference) else "branch": reference} if reference else {}
    if reference.startswith("tag:"):
        which = {"tag": reference.removeprefix("tag:")}
    if at and not reference:
        raise RefusalError("--git", given.git, "has no reference after its @", "write a branch, tag:NAME or a commit")
    more = {"secret": given.git_secret, "subdirectory": given.git_folder}
    named = {name: value for name, value in more.items() if value is not None}
    return GitSource(given.git[:start] + path, **which, **named)


def _parameter_servers(given: argparse.Namespace) -> ParameterServers:
    asked = {"cpu": given.ps_cpu, "memory": given.ps_memory}
    resources = Resources(**{name: value for name, value in asked.items() if value is not None})
    return ParameterServers(replicas=given.ps, resources=resources)


def _check_parameter_servers(given: argparse.Namespace) -> None:
    """Refuse what is not for parameter servers, or says nothing without them, and a login without a repository."""
    if given.ps is not None and given.kind != "tensorflow":
        raise RefusalError("--ps", given.ps, "applies only to --kind tensorflow", "omit it")
    for option, value, needed in (
        ("--ps-cpu", given.ps_cpu, "--ps"),
        ("--ps-memory", given.ps_memory, "--ps"),
        ("--git-secret", given.git_secret, "--git"),
        ("--git-folder", given.git_folder, "--git"),
    ):
        if value is not None and getattr(given, needed.removeprefix("--")) is None:
            raise RefusalError(option, value, f"says nothing without {needed}", f"add {needed}, or omit it")


def _egress(word: str) -> Egress:
    """Return the rule of TO[:PORTS]."""
    to, colon, ports = word.partition(":")
    if ":" in ports:  # an IPv6 range, which the class refuses
        return Egress(to=word)
    if not colon:
        return Egress(to=to)
    if not _PORTS.fullmatch(ports):
        raise RefusalError("--egress", word, "its ports must be numbers", f"write {to}:443, or {to}:443,5432")
    return Egress(to=to, ports=tuple(int(port) for port in ports.split(",")))


def _volume(word: str) -> ClaimMount:
    """Return the volume of CLAIM:PATH, or CLAIM:PATH:ro."""
    claim, _, rest = word.partition(":")
    path, colon, mode = rest.partition(":")
    if not claim or not path or (colon and mode not in {"ro", "rw"}):
        raise RefusalError("--volume", word, "must be CLAIM:PATH", "write imagenet:/imagenet, or imagenet:/imagenet:ro")
    return ClaimMount(claim=claim, path=path, read_only=mode == "ro")


def _processes(given: argparse.Namespace, pasted: Pasted) -> int | None:
    """Return the ranks of a worker, as far as anything says how many."""
    said = pasted.sizes.get("processes")
    if given.processes is not None and said not in {None, given.processes}:
        limit = f"the command says {said}"
        raise RefusalError("--processes", given.processes, limit, "omit one of the two")
    return said if given.processes is None else given.processes


def _slots(given: argparse.Namespace, pasted: Pasted) -> int | None:
    """Return the same under mpirun: without GPUs and any other number, its -np is shared evenly."""
    slots, ranks = _processes(given, pasted), pasted.sizes.get("ranks", 0)
    shared_evenly = ranks and slots is None and not given.gpus and given.workers > 0 and ranks % given.workers == 0
    return ranks // given.workers if shared_evenly else slots


def _check_workers(given: argparse.Namespace, pasted: Pasted) -> None:
    said = pasted.sizes.get("workers", given.workers)
    if said != given.workers:
        raise RefusalError("--workers", given.workers, f"torchrun says {said} nodes", "write the same number twice")


def _elastic(given: argparse.Namespace) -> dict[str, int]:
    if given.elastic is None:
        return {}
    if given.workers > 0 and not 1 <= given.elastic <= given.workers:
        limit = f"must be 1 to {given.workers}, the number of --workers"
        raise RefusalError("--elastic", given.elastic, limit, "use fewer, or raise --workers")
    return {"minimum_workers": given.elastic}


def _check_not_elastic(given: argparse.Namespace) -> None:
    if given.elastic is not None:
        raise RefusalError("--elastic", given.elastic, "applies only to --kind pytorch", "omit it")


def _check_single_process(given: argparse.Namespace) -> None:
    if given.processes is not None:
        limit = "applies only to --kind pytorch and mpi: a pod runs the command once"
        raise RefusalError("--processes", given.processes, limit, "omit it")


def default_name(program: list[str]) -> str:
    """Return a name that no other run has: the script's, and random digits."""
    scripts = [word for word in program if PurePosixPath(word).suffix in SCRIPT_SUFFIXES]
    return f"{beginning_of_name(PurePosixPath(scripts[0]).stem) if scripts else 'run'}-{secrets.token_hex(3)}"


def beginning_of_name(text: str) -> str:
    """Return a valid beginning for names of runs, as similar to a text as possible."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower())
    return kept.lstrip("-0123456789")[:_LONGEST_STEM].rstrip("-") or "run"
