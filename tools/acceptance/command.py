"""`make acceptance STACK=…`: estimate the cost, confirm, run the steps, write the report."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape

from infra.cost import stack_prices
from infra.errors import RefusalError, choices
from infra.settings.parse import parse_settings
from tools.acceptance import price
from tools.acceptance.journal import Journal, now, only_run
from tools.acceptance.report import FILE, Heading, markdown, summary
from tools.acceptance.runner import Runner
from tools.acceptance.site import Site
from tools.acceptance.steady_engine import INTERRUPTIONS, SteadyEngine
from tools.acceptance.steps.all_steps import ALL, ON_THIS_MACHINE
from tools.files import write_atomically
from tools.paths import REPOSITORY, paths
from tools.process import CommandError, ProgramTimeoutError, run
from tools.stacks.engine import described_stacks, make_private_folders, stack_config
from tools.stacks.preview import engine_tools
from tools.toolchain import ensure, upstream_manifests

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from types import FrameType

    from rich.console import Console

    from infra.settings.node_pools import NodePoolSettings
    from infra.settings.stack import Settings
    from tools.acceptance.findings import Findings
    from tools.acceptance.runner import Step
    from tools.progress import Progress

INTERRUPTED = 130
_KEPT = "KEEP=1: the environment stays and costs money"
_EVENTS = ("get", "events", "--all-namespaces", "--field-selector=type=Warning", "--sort-by=.lastTimestamp")
_WAITING_PODS = ("get", "pods", "--all-namespaces", "--field-selector=status.phase!=Running", "-o", "wide")
_LOOPBACK = ("127.", "localhost", "[::1]")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    yes: bool = False
    """Go on without asking."""
    keep: bool = False
    """Leave the environment in the end."""
    pools: Sequence[str] = ()
    """GPU pools to use. Default: all."""


def accept(stack: str, options: Options, console: Console, report: Progress) -> int:
    """Run what was not done yet of a stack's acceptance run; return the process's exit status.

    0: no step failed; 1: one did; 130: interrupted.

    Raises:
        RefusalError: nobody described the stack, it has an environment already or is protected, or nobody confirmed
            the cost.
        ToolchainError: a program is not available.
    """
    if stack not in described_stacks():
        raise RefusalError("STACK", stack, f"has no Pulumi.{stack}.yaml", choices(stack, described_stacks()))
    settings = parse_settings(stack_config(stack))
    pools = gpu_pools(settings, options.pools)
    runs = paths().home / "acceptance" / stack
    make_private_folders()
    with only_run(runs), _ended_politely():
        journal = Journal.of(runs, stack)
        site = _site(stack, settings, pools, journal, console, report)
        if settings.alicloud is not None:
            check_nothing_is_lost(site)
            named, prices = [pool.name for pool in pools], stack_prices(settings.prices)
            _confirm(site, options, price.statement(settings.alicloud, named, prices))
        return _go(site, options)


def gpu_pools(settings: Settings, named: Sequence[str]) -> list[NodePoolSettings]:
    """Return the GPU pools that a run uses: all whose nodes ECS sells by the hour, or those that are named.

    Raises:
        RefusalError: a name is none of them.
    """
    listed = settings.alicloud.node_pools if settings.alicloud else ()
    usable = [pool for pool in listed if pool.role == "gpu" and pool.maximum and not pool.lingjun]
    names = [pool.name for pool in usable]
    wrong = next((name for name in named if name not in names), None)
    if wrong is not None:
        raise RefusalError("POOLS", wrong, "is not a GPU pool that a run can use", choices(wrong, names))
    return [pool for pool in usable if not named or pool.name in named]


def check_nothing_is_lost(site: Site) -> None:
    """Refuse what would end in the loss of somebody's environment, or in none being taken away.

    Raises:
        RefusalError: the stack has resources that this run did not make, or is protected.
    """
    if site.alicloud.protected:
        limit = "a run ends with `destroy`, which a protected environment refuses"
        fix = f"copy Pulumi.{site.stack}.yaml to a separate stack with protected: false"
        raise RefusalError("alicloud.protected", value=True, limit=limit, fix=fix)
    if site.journal.environment_begun or not site.engine.exists():
        return
    resources = site.engine.export()["deployment"].get("resources", [])
    if resources:
        limit = f"has {len(resources)} resources that no acceptance run created, but a run ends with `destroy`"
        fix = f"copy Pulumi.{site.stack}.yaml to Pulumi.acceptance.yaml and run it with STACK=acceptance"
        raise RefusalError("STACK", site.stack, limit, fix)


def _site(  # noqa: PLR0913, PLR0917 - each is one thing that a run works with
    stack: str,
    settings: Settings,
    pools: Sequence[NodePoolSettings],
    journal: Journal,
    console: Console,
    report: Progress,
) -> Site:
    # Where there is no account, no program is needed either.
    programs = ensure(sorted(engine_tools(settings)), report) if settings.alicloud else {}
    if settings.alicloud:
        upstream_manifests(report, gateway=settings.gateway.enabled)
    nowhere = paths().cache
    return Site(
        stack=stack,
        settings=settings,
        engine=SteadyEngine(pulumi=programs.get("pulumi", nowhere), stack=stack),
        kubectl_program=programs.get("kubectl", nowhere),
        journal=journal,
        console=console,
        report=report,
        environment=os.environ,
        pools=pools,
    )


def _confirm(site: Site, options: Options, statement: str) -> None:
    site.journal.notes["cost"] = statement
    site.journal.save()
    if site.journal.leaving:
        return  # what is left to do makes it cheaper
    site.console.print(escape(statement), soft_wrap=True)
    if options.keep:
        site.console.print(f"[bold]{_KEPT} until you destroy it.[/]")
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise RefusalError(
            "YES", None, "this costs money, and there is no terminal to ask for confirmation", "set YES=1"
        )
    typed = site.console.input(f"Type {site.stack} to continue: ").strip()
    if typed != site.stack:
        raise RefusalError("confirmation", typed, "is not the name of the stack", f"type {site.stack}, or set YES=1")


def _go(site: Site, options: Options) -> int:
    steps = ALL if site.settings.alicloud else ON_THIS_MACHINE
    # A partly destroyed environment is not kept.
    keep = _KEPT if options.keep and not site.journal.leaving else ""
    runner = Runner(
        steps=steps,
        site=site,
        journal=site.journal,
        report=site.report,
        changed=lambda: _write(site, steps),
        failure_evidence=lambda findings: why(site, findings),
        keep=keep,
    )
    site.report.plan([step.name for step in steps])
    try:
        interrupted = runner.run()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        site.kubeconfig.unlink(missing_ok=True)
    if not keep and _is_over(site.journal, steps):
        site.journal.finish()
    _write(site, steps)
    entries = site.journal.entries
    site.console.print(f"{summary(entries)}. Report: {escape(str(site.folder / FILE))}", soft_wrap=True)
    if next_step := _next_step(site):
        site.console.print(escape(next_step), soft_wrap=True)
    if interrupted:
        return INTERRUPTED
    return 1 if any(entry.status == "failed" for entry in entries) else 0


def _is_over(journal: Journal, steps: Sequence[Step]) -> bool:
    """Return whether nothing is left to delete."""
    ended = [journal.entry(step.name) for step in steps if step.last]
    return all(entry is not None and entry.status in {"passed", "skipped"} for entry in ended)


def _next_step(site: Site) -> str:
    if site.journal.finished or not site.journal.environment_begun:
        return ""
    again = f"`make acceptance STACK={site.stack}`"
    if site.journal.leaving:
        return f"Some resources may still exist: {again} or `pulumi destroy -s {site.stack}` removes them."
    return f"The environment exists and costs money: {again} repeats the steps that did not pass and then destroys it."


def _write(site: Site, steps: Sequence[Step]) -> None:
    heading = Heading(
        stack=site.stack,
        where=_where(site),
        code=_code(),
        began=site.journal.began,
        ended=now(),
        cost=site.journal.notes.get("cost", "Nothing: no account is used."),
        next_step=_next_step(site),
    )
    write_atomically(site.folder / FILE, markdown(heading, steps, site.journal.entries, site.environment))


def _where(site: Site) -> str:
    if site.settings.alicloud is None:
        return "this machine alone"
    region = site.alicloud.region
    endpoint = site.environment.get("ALIBABA_CLOUD_ENDPOINT_CS") or site.environment.get("CS_ENDPOINT")
    if endpoint and endpoint.startswith(_LOOPBACK):
        return f"{region}, THE API DOUBLE at {endpoint}: no account, no machine, no GPU"
    return f"{region}{f', endpoint {endpoint}' if endpoint else ''}"


def _code() -> str:
    try:
        return run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=REPOSITORY, timeout_seconds=60
        ).strip()
    except (OSError, CommandError, ProgramTimeoutError):
        return "unknown: not a git checkout"


def why(site: Site, findings: Findings) -> None:
    """Add what a failed step is best explained by: the engine's log, warnings of the cluster, pods that wait."""
    log = paths().logs / f"pulumi-{site.stack}.log"
    if log.is_file():
        findings.saw(f"the end of {log.name}", log.read_text(encoding="utf-8", errors="replace"))
    if not site.kubeconfig.is_file():
        return
    for words in (_EVENTS, _WAITING_PODS):
        try:
            findings.saw(f"kubectl {' '.join(words)}", site.kubectl.run(*words))
        except (CommandError, ProgramTimeoutError) as error:
            findings.saw(f"kubectl {' '.join(words)}", str(error))


@contextmanager
def _ended_politely() -> Generator[None]:
    """Treat the end of a session or a CI job as Ctrl-C: `destroy` still runs."""
    before = {kind: signal.signal(kind, _interrupt) for kind in INTERRUPTIONS}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
