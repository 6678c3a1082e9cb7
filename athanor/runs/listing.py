"""A run as an entry of a list: phase, waiting and running time, GPUs, command and progress."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from athanor.inspection.columns import columns
from athanor.inspection.control_characters import printable, shortened
from athanor.runs.job import ENDED, phase_of
from athanor.runs.prices import amount
from athanor.runs.series import LOSSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ELSEWHERE = "elsewhere"
_RUNNING = "Running"
_HEADINGS = ("RUN", "PHASE", "BY", "CREATED", "WAITED", "RAN", "GPU-HOURS", "CNY", "LOSS", "CODE", "COMMAND")
_UNKNOWN = "-"
_LONGEST_COMMAND = 100


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the user's."""

    run: str
    phase: str
    """Phase of its job; `gone` if it no longer exists in the cluster, ELSEWHERE if it belongs to another cluster."""
    job: str = ""
    created: str = ""
    """RFC 3339, UTC."""
    waited_seconds: int | None = None
    """Seconds from its creation until all the pods that it needs ran for the first time, or until now."""
    ran_seconds: int | None = None
    """Seconds in which its pods ran, without the time between a restart or a stop and the next start."""
    gpus: int | None = None
    gpu_hours: float | None = None
    may_be_less: bool = False
    """Whether it may have run with fewer pods at times, as elastic jobs do: its GPU-hours and cost are the most."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields for --json; what is not known is null."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A run with what is known beyond its job."""

    run: Run
    by: str | None
    """Login name of who started it, on their machine."""
    arguments: Mapping[str, str]
    """Arguments other than defaults, by name, such as resources.gpus; `source` is the digest of its code."""
    cost_cny: tuple[float, float] | None
    """Cost of its GPU-hours at list prices: lowest and highest, the same where only one kind of node fits."""
    step: int | None
    """The latest that it printed."""
    latest: Mapping[str, float]
    """The latest of each number that it printed, by name."""
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """The hyperparameters that it printed, by name."""
    server: str | None = None
    """Host and port of the API server of its cluster."""
    namespace: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields for --json; what is not known is null."""
        own = {"by": self.by, "arguments": self.arguments, "cost_cny": self.cost_cny}
        said = {"step": self.step, "latest": self.latest, "hyperparameters": self.settings}
        where = {"server": self.server, "namespace": self.namespace}
        return {**self.run.to_json(), **own, **said, **where}

    @property
    def command(self) -> str:
        """Command of its pods; empty if unknown."""
        return self.arguments.get("program") or self.arguments.get("command", "")


def describe(name: str, job: dict[str, Any] | None, now: datetime) -> Run:
    """Return the description of a run from its job.

    Args:
        name: The run's name.
        job: Its Volcano Job; None if the cluster has none.
        now: Until when what has not ended is counted.
    """
    if job is None:
        return Run(run=name, phase="gone")
    created = job["metadata"]["creationTimestamp"]
    spans = _spans(job, now)
    first = next((begin for begin, _ in spans), None)
    waited = _seconds(_time(created), first or _end(job, now))
    ran = sum(_seconds(begin, end) for begin, end in spans)
    gpus = _gpus(job)
    return Run(
        run=name, phase=phase_of(job), job=job["metadata"]["name"], created=created,
        waited_seconds=waited, ran_seconds=ran, gpus=gpus, gpu_hours=round(gpus * ran / 3600, 2),
        may_be_less=gpus > 0 and _is_elastic(job),
    )  # fmt: skip


def table(runs: Iterable[Listed], width: int | None = None) -> list[str]:
    """Return the lines of a table with a heading.

    Args:
        runs: In their order.
        width: Where its lines, which end with the command, are cut off; None: nowhere.
    """
    rows = [_HEADINGS, *(tuple(cell or _UNKNOWN for cell in _row(run)) for run in runs)]
    return [line if width is None or len(line) <= width else f"{line[: width - 1]}…" for line in columns(rows)]


def _row(listed: Listed) -> tuple[str, ...]:
    run, loss = listed.run, next((name for name in LOSSES if name in listed.latest), None)
    most = "≤ " if run.may_be_less else ""
    return (
        run.run,
        _phase(listed),
        printable(listed.by or ""),
        run.created,
        duration(run.waited_seconds),
        duration(run.ran_seconds),
        "" if run.gpu_hours is None else f"{most}{run.gpu_hours:.2f}",
        "" if listed.cost_cny is None else f"{most}{amount(*listed.cost_cny)}",
        "" if loss is None else f"{listed.latest[loss]:.4g}",
        listed.arguments.get("source", "").removeprefix("sha256 "),
        shortened(listed.command, _LONGEST_COMMAND),
    )


def _phase(listed: Listed) -> str:
    if listed.run.phase != ELSEWHERE:
        return listed.run.phase
    return printable(f"{ELSEWHERE} ({listed.server}/{listed.namespace})")


def _spans(job: dict[str, Any], now: datetime) -> list[tuple[datetime, datetime]]:
    """Return when the job ran: Volcano adds a condition whenever the phase changes, and sometimes when it does not."""
    spans: list[tuple[datetime, datetime]] = []
    since: datetime | None = None
    for condition in job.get("status", {}).get("conditions", []):
        at = _time(condition["lastTransitionTime"])
        if condition["status"] == _RUNNING:
            since = since or at
        elif since is not None:
            spans.append((since, at))
            since = None
    if since is not None:
        spans.append((since, now))
    return spans


def _end(job: dict[str, Any], now: datetime) -> datetime:
    state = job.get("status", {}).get("state", {})
    ended = phase_of(job) in ENDED and state.get("lastTransitionTime")
    return _time(ended) if ended else now


def _gpus(job: dict[str, Any]) -> int:
    return sum(task.get("replicas", 0) * _gpus_of_pod(task["template"]["spec"]) for task in job["spec"]["tasks"])


def _is_elastic(job: dict[str, Any]) -> bool:
    pods = sum(task.get("replicas", 0) for task in job["spec"]["tasks"])
    return job["spec"].get("minAvailable", pods) < pods


def _gpus_of_pod(spec: dict[str, Any]) -> int:
    limits = [container.get("resources", {}).get("limits", {}) for container in spec["containers"]]
    return sum(int(each.get("nvidia.com/gpu", 0)) for each in limits)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _seconds(begin: datetime, end: datetime) -> int:
    return max(0, round((end - begin).total_seconds()))


def duration(seconds: int | None) -> str:
    """Return a time as people say it: 42s, 3m 5s, 2h 10m."""
    if seconds is None:
        return _UNKNOWN
    minutes, rest = divmod(seconds, 60)
    hours, left = divmod(minutes, 60)
    if hours:
        return f"{hours}h {left}m"
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"
