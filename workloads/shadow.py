"""A shadow of a service: a copy with another model, which gets a share of real requests and never answers clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.admitted import LARGEST_ROLE
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.model_variants import ModelVariant
from workloads.canary import MAXIMUM_VERSION
from workloads.checks import ModelName, check_range
from workloads.resources import Resources

if TYPE_CHECKING:
    from infra.manifests import Manifest

SHADOW_SUFFIX = "-shadow"


@checked("shadow")
@dataclass(frozen=True, kw_only=True)
class Shadow:
    """A second Deployment and Service, `<name>-shadow`, whose answers the server compares with its own.

    Name at least one of model, version and variant. For the thin runtime.
    """

    model: ModelName | None = None
    """Model of the shadow, with inputs and outputs of the same names. Default: the service's."""
    version: int | None = None
    """Version of the shadow. Default: the service's; for another model, as its version_policy says."""
    variant: ModelVariant | None = None
    """Compressed variant of the shadow, such as "int8". Default: the model itself, also where the service has one."""
    percent: int = 10
    """Share of the answered requests that the shadow gets, 1 to 100."""
    tolerance: float | None = None
    """Largest absolute difference of two fractions that counts as equal. Default: any, so that the class decides."""
    classes: bool = True
    """The largest value of each row is a class, which must be the same. Set to false, with a tolerance, for other
    outputs."""
    replicas: int = 1
    """Pods of the shadow."""
    resources: Resources | None = None
    """What one pod of the shadow asks for. Default: as the service's."""

    def __post_init__(self) -> None:
        """Refuse what compares nothing, and impossible numbers.

        Raises:
            RefusalError: naming the field, its value and what to write instead.
        """
        if self.version is not None:
            check_range("shadow.version", self.version, 1, MAXIMUM_VERSION)
        check_range("shadow.percent", self.percent, 1, 100)
        check_range("shadow.replicas", self.replicas, 1, LARGEST_ROLE)
        if self.tolerance is not None and not 0 <= self.tolerance < float("inf"):
            raise RefusalError("shadow.tolerance", self.tolerance, "must be a finite number from 0", "write 0.01")
        if self.tolerance is None and not self.classes:
            limit = "would leave nothing to compare in an output of fractions"
            raise RefusalError("shadow.classes", self.classes, limit, "add tolerance=0.01, or omit classes")

    def arguments(self, url: str, service_model: str) -> tuple[str, ...]:
        """Return the server's arguments to reach the shadow at `url`."""
        return (
            f"--shadow_url={url}",
            *([] if self.model in (None, service_model) else [f"--shadow_model={self.model}"]),
            f"--shadow_share={self.percent / 100:g}",
            *([] if self.tolerance is None else [f"--shadow_tolerance={self.tolerance}"]),
            *([] if self.classes else ["--no_shadow_classes"]),
        )


def pods_rule(labels: dict[str, str], port: int) -> Manifest:
    """Return the rule of a network policy that opens one port of the pods with some labels, and nothing else."""
    return {"to": [{"podSelector": {"matchLabels": labels}}], "ports": [{"protocol": "TCP", "port": port}]}
