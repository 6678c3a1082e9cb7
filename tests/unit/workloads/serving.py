"""A platform with GPU pools, and services recorded on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infra.offers import PlatformOffers
from infra.pools import pool_offers
from infra.settings.stack import Settings
from tests.recording_engine import Recording, record
from tests.unit.workloads.job_cases import plain_platform
from workloads.inference import TorchScriptService, TorchScriptServiceArgs

if TYPE_CHECKING:
    from infra.autoscaling_metrics import AutoscalingMetric

POOL = "ebmgn8v-48xlarge"
SIMULATED = {"instance_type": "ecs.ebmgn8v.48xlarge", "count": 2}


def serve(*, preview: bool = False, offered: tuple[AutoscalingMetric, ...] | None = None, **asked: object) -> Recording:
    """Record a service called `digits` on a platform whose one pool has two nodes with eight GPUs each.

    `offered`: what autoscalers can hold there; None: not known.
    """
    args = TorchScriptServiceArgs(**{"model": "digits", **asked})
    settings = Settings.model_validate({"cluster": {"simulated_nodes": [SIMULATED]}})
    offers = PlatformOffers(pools=pool_offers(settings), pod_security="privileged", autoscaling=offered)

    def program() -> None:
        platform = replace(plain_platform(), namespace="team", queue="research", offers=offers)
        TorchScriptService("digits", platform, args)

    return record(program, preview=preview)


def flags(command: list[str]) -> dict[str, str]:
    """Return the flags of a command; one without a value gives an empty text."""
    words = [word.removeprefix("--").partition("=") for word in command if word.startswith("--")]
    return {name: value for name, _, value in words}
