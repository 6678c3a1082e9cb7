"""Settings of an existing cluster."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from infra.settings.fields import Count, Model, known_instance_type, repeated


class SimulatedNodes(Model):
    """GPU nodes that exist only in the API server (kwok): for scheduling tests, never for real work."""

    instance_type: Annotated[str, AfterValidator(known_instance_type)]
    """A name from infra/instance_types.py; decides GPUs, CPU, memory and labels."""
    count: Count = Field(default=1, ge=1, le=5000)
    """How many of them."""


class ClusterSettings(Model):
    """Which Kubernetes cluster the stack runs on."""

    kubeconfig: str | None = None
    """Path of a kubeconfig file. Default: the one that `make up` writes for its own local cluster."""
    context: str | None = None
    """Context in that file. Required with `kubeconfig`, so that nobody deploys to the wrong cluster by accident."""
    simulated_nodes: tuple[SimulatedNodes, ...] = ()
    """Simulated GPU nodes to add (the cluster must run kwok; `make up` installs it if stack `local` names some)."""

    @model_validator(mode="after")
    def _context_is_explicit(self) -> Self:
        if self.kubeconfig and not self.context:
            raise ValueError(
                f"names kubeconfig {self.kubeconfig!r} but no context. Fix: set cluster.context to the context to use"
            )
        if self.context and not self.kubeconfig:
            raise ValueError(
                f"names context {self.context!r} but no kubeconfig. Fix: set cluster.kubeconfig to the file that"
                " contains it"
            )
        return self

    @model_validator(mode="after")
    def _simulated_nodes_have_names_of_their_own(self) -> Self:
        types = [group.instance_type for group in self.simulated_nodes]
        twice = repeated(types)
        if twice:
            raise ValueError(
                f"simulated_nodes repeats {', '.join(twice)}. Fix: write one entry per type, with the total count"
            )
        return self
