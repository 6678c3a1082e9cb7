"""A stack of a run that caches the engine's answers, because each query starts the engine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from pulumi import automation
from pulumi.automation._stack import StackInitMode  # the type of a public argument, exported nowhere

_ROOT = "pulumi:pulumi:Stack"


class RunStack(automation.Stack):
    """The stack of a run.

    Behind an update or its removal, the Automation API starts the engine three more times: for the outputs, for the
    same with secrets, and for the entry in the history, which takes about two seconds. The outputs stand in the
    engine's events, a run has no secret ones, and nobody reads the entry.
    """

    def __init__(self, name: str, workspace: automation.Workspace, mode: StackInitMode) -> None:
        """Create or select the stack, as the Automation API does."""
        super().__init__(name, workspace, mode)
        self._declared: automation.OutputMap | None = None

    @classmethod
    def create(cls, stack_name: str, workspace: automation.Workspace) -> Self:
        """Create a stack.

        Raises:
            StackAlreadyExistsError: there is one of that name.
        """
        return cls(stack_name, workspace, StackInitMode.CREATE)

    @classmethod
    def select(cls, stack_name: str, workspace: automation.Workspace) -> Self:
        """Return a stack that exists.

        Raises:
            StackNotFoundError: there is none of that name.
        """
        return cls(stack_name, workspace, StackInitMode.SELECT)

    def outputs(self) -> automation.OutputMap:
        """Return the outputs of the last update, if `note` was given its events, else what the engine says."""
        return super().outputs() if self._declared is None else self._declared

    def info(self, show_secrets: bool | None = None) -> automation.UpdateSummary:  # noqa: ARG002, FBT001 - as in the base
        """Return an entry of the history that says nothing but that there was an update."""
        return automation.UpdateSummary(
            kind="update", start_time=datetime.now(UTC), message="", environment={}, config={}, result="succeeded"
        )

    def note(self, event: automation.EngineEvent) -> None:
        """Take the outputs from an event of an update."""
        finished = event.res_outputs_event
        if finished is not None and finished.metadata.type == _ROOT and finished.metadata.new is not None:
            outputs = finished.metadata.new.outputs or {}
            self._declared = {name: automation.OutputValue(value, secret=False) for name, value in outputs.items()}
