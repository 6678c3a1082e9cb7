"""Protection of an environment: a delete is refused before anything has been deleted.

See docs/decisions/0013-a-protected-environment-refuses-first.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.stack import Settings


class Protection(pulumi.ComponentResource):
    """The last resource to be created, and so the first that `destroy` comes to: it depends on everything else.

    Without a preview the engine refuses a protected resource only when its turn comes, which is after all that depends
    on it has gone. Then it leaves alone what the refused one needs, and nothing more.
    """

    def __init__(
        self, name: str, everything: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        needs = pulumi.ResourceOptions(depends_on=everything)
        super().__init__("athanor:infra:Protection", name, None, pulumi.ResourceOptions.merge(opts, needs))
        self.register_outputs({})


def declared_resources() -> list[pulumi.Resource]:
    """Return a list that every resource joins which the program declares from now on."""
    declared: list[pulumi.Resource] = []

    def remember(args: pulumi.ResourceTransformationArgs) -> None:
        declared.append(args.resource)

    pulumi.runtime.register_stack_transformation(remember)
    return declared


def protect_environment(settings: Settings, declared: Sequence[pulumi.Resource]) -> None:
    """Protect an environment on Alibaba Cloud as a whole, if its settings say so; call it when all is declared.

    The resource is there in any case: one that vanished with the setting would be refused its deletion, too.
    """
    if settings.alicloud is not None:
        Protection("protection", list(declared), pulumi.ResourceOptions(protect=settings.alicloud.protected))
