"""`make acceptance STACK=dev` against a pretended account: from nothing to nothing, its GPU steps skipped and said so.

What is simulated runs nothing, so what this shows is the way there and back, the questions, and the report.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.clone import REPOSITORY, Clone, make_clone
from tests.fixtures.cloud import leave_out_monitoring
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.api_double.double import ApiDouble

STACK = "dev"
MADE_OR_READ = {"account", "up", "drift", "cluster", "nodes", "scale-out", "gpu-nodes", "destroy", "leftovers"}
NEEDS_GPUS = {"this-machine", "gpu-job", "dashboards", "network", "gpu-check", "sharing", "spot-loss", "scale-in"}
NOT_SERVED = ["ecs.DescribeAvailableResource"]
"""Questions that a run can do without."""


@pytest.fixture(scope="module")
def clone(account: ApiDouble, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone whose shell points at the account, and that has never heard of the stack."""
    folder = tmp_path_factory.mktemp("acceptance")
    clone = make_clone(folder / "clone", folder / "home")
    clone.make("tools")
    leave_out_monitoring(clone, STACK)
    clone.configure(STACK, digits={"enabled": False})
    return replace(clone, variables=account.environment())


def runs(clone: Clone) -> list[Path]:
    return sorted((clone.home / "acceptance" / STACK).glob("*/run.json"))


def journal(clone: Clone) -> dict[str, Any]:
    return json.loads(runs(clone)[-1].read_text())


def statuses(clone: Clone) -> dict[str, str]:
    return {step["step"]: step["status"] for step in journal(clone)["steps"]}


def report(clone: Clone) -> str:
    return (runs(clone)[-1].parent / "report.md").read_text()


def actions(*names: str) -> set[str]:
    policies = [json.loads((REPOSITORY / "docs" / f"{name}.json").read_text()) for name in names]
    return {action for policy in policies for statement in policy["Statement"] for action in statement["Action"]}


def test_an_interrupted_run_takes_away_what_it_made(account: ApiDouble, clone: Clone) -> None:
    with clone.started("make", "acceptance", f"STACK={STACK}", "YES=1") as process:
        wait_until(lambda: account.inventory().get("vpc"), "the VPC", moves=lambda: len(account.log.calls()))
        # To the whole group, as a terminal does.
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate()[0]

    assert statuses(clone)["up"] == "interrupted", printed
    assert statuses(clone)["destroy"] == "passed", printed
    assert account.inventory() == {}
    assert process.returncode != 0


def test_a_run_goes_from_nothing_to_nothing(account: ApiDouble, clone: Clone) -> None:
    before = len(account.log.calls())

    printed = clone.make("acceptance", f"STACK={STACK}", "YES=1")

    assert statuses(clone) == dict.fromkeys(MADE_OR_READ, "passed") | dict.fromkeys(NEEDS_GPUS, "skipped"), printed
    assert account.inventory() == {}
    text = report(clone)
    assert "THE API DOUBLE" in text
    assert "its nodes are simulated by the API double, so nothing runs there" in text
    asked = {f"{call.product}:{call.operation}" for call in account.log.calls()[before:]}
    assert asked - {"sts:GetCallerIdentity"} <= actions("ram-policy", "ram-policy-acceptance")
    for name in ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"):
        assert clone.variables[name] not in text
    assert "client-key-data" not in text
    assert not (runs(clone)[-1].parent / "kubeconfig").exists()
    assert not [line for line in (clone.folder / f"Pulumi.{STACK}.yaml").read_text().splitlines() if "salt" in line]
    assert account.mistakes() == []
    assert account.unknown_operations() == NOT_SERVED
