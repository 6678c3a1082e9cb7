"""Arguments that every kind of job takes in addition to its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from infra.descriptions import Input, checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import AbsolutePath, DnsLabel, DnsSubdomain, Image, LabelValue, QueueName, Word
from workloads.checks import OwnLabelKey, check_range
from workloads.egress import Egress
from workloads.git_source import GitSource
from workloads.job_secrets import SecretVariables, check_variables
from workloads.local_folder import LocalFolder
from workloads.roles import PodArgs
from workloads.topology import Together

LONGEST_SECONDS = 10 * 365 * 86400
"""Longest time that a job may set."""


@checked()
@dataclass(frozen=True, kw_only=True)
class JobArgs(PodArgs):
    """What a job is apart from its roles; what PodArgs says holds for the pods that compute."""

    image: Input[Image] | None = None
    """Image of the pods. Default: the platform's."""
    source: GitSource | LocalFolder | None = None
    """Fetch the code from git when a pod starts, or send a folder of this machine. Default: it is in the image."""
    working_directory: AbsolutePath | None = None
    """Directory in the image that the program starts in; no shell is needed in the image then. Default: the code of
    `source`, else the image's own, or where that cannot be written one below /tmp with links to all its files. What is
    written there is gone with the pod."""
    run_as_user: int | None = None
    """User id that the program runs as, for images whose files only their own user can read; its group stays the
    platform's. 0, root without any capability, is refused where the namespace enforces Pod Security `restricted`.
    Default: 10001."""
    read_only_root: bool = True
    """Whether the root file system of the image is read-only. What a program writes there is gone with the pod."""
    prepare: Sequence[Word] = ()
    """Command that runs first in each computing pod, with the program's image, code and variables. It may fill
    /data/data, where it must be safe to run twice at once, or install packages with `pip install --user`."""
    requirements: Word | None = None
    """File of Python packages in the code, such as requirements.txt. One pod installs with pip what the image
    lacks, into a folder of the volume /data/output that all pods and later jobs with the same file and image use. pip
    asks the platform's index, or the one that PIP_INDEX_URL in `env` names, which needs `egress`."""
    cache: DnsLabel | None = None
    """Name of a folder for caches in the volume /data/output, which later runs find again: those of torch.compile,
    Triton, CUDA and pip, and what programs keep in ~/.cache. Default: caches are gone with the pod."""
    secret_env: SecretVariables = field(default_factory=dict[str, Input[str]], repr=False)
    """Environment variables with secret values, such as {"WANDB_API_KEY": config.require_secret("wandb")}: a Secret of
    the job's own, encrypted in the stack's state. A change replaces nothing: pods that start later have the new values,
    and `rerun` starts them all again."""
    egress: Sequence[Egress] = ()
    """Where the pods may connect to in addition to each other and DNS. A change replaces nothing. Default: nowhere."""
    labels: Mapping[OwnLabelKey, LabelValue] = field(default_factory=dict[str, str])
    """Labels of the job's object alone: a change of them does not replace the job."""
    queue: Input[QueueName] | None = None
    """Volcano queue. Default: the platform's first one."""
    priority_class: DnsSubdomain | None = None
    """One of the platform's priority classes, such as "high", or the full name of any PriorityClass."""
    together: Together | None = None
    """Keep all pods close to each other in the network. Default: wherever they fit."""
    max_restarts: int | None = None
    """Failures of the program after which it starts again: with all pods where these need each other, else alone. Pods
    that are taken away (preempted, evicted, their node drained or gone, ended by the liveness probe) start again anyhow
    and count as none: docs/jobs.md. Default: 0, and 10 for the platform's own programs and elastic jobs."""
    grace_period_seconds: int = 60
    """Time between SIGTERM and SIGKILL: one step and one checkpoint must fit."""
    deadline_seconds: int | None = None
    """Longest time that the pods of one attempt may run. Unless `max_restarts` is more than 0 it is that of the job,
    which then does not start again when a pod is lost either. Default: none."""
    ttl_seconds_after_finished: int | None = None
    """How long the pods stay after the job completed or failed: then they and their logs are removed, within the
    platform's `clean_up.interval_minutes`. The Job object stays as the record of what ran, so that no update runs it
    again, and so do the volumes. A change replaces nothing. Default: the pods stay as long as the job is declared."""
    wait_seconds: int | None = None
    """Let `up` wait this long for the job to complete, and fail if it does not. Default: `up` does not wait."""
    rerun: int = 0
    """Another number runs the same job once more, as a new object."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the cluster."""
        super().__post_init__()
        check_variables(self.secret_env, self.env)
        if self.requirements is not None and self.working_directory is not None:
            limit = "needs a shell in the image, and with working_directory there may be none"
            raise RefusalError("requirements", self.requirements, limit, "omit working_directory")
        if self.requirements is not None and self.source is None:
            limit = "is a file of the code, and the job has none"
            raise RefusalError("requirements", self.requirements, limit, "set source, or omit it")
        if self.run_as_user is not None:
            check_range("run_as_user", self.run_as_user, 0, 2**31 - 1)
        if self.max_restarts is not None:
            check_range("max_restarts", self.max_restarts, 0, 1000)
        check_range("grace_period_seconds", self.grace_period_seconds, 10, 3600)
        check_range("rerun", self.rerun, 0, 1_000_000)
        if self.deadline_seconds is not None:
            check_range("deadline_seconds", self.deadline_seconds, 1, LONGEST_SECONDS)
        if self.ttl_seconds_after_finished is not None:
            check_range("ttl_seconds_after_finished", self.ttl_seconds_after_finished, 0, LONGEST_SECONDS)
        if self.wait_seconds is not None:
            check_range("wait_seconds", self.wait_seconds, 1, 86400)
