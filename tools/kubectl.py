"""Queries of the cluster through kubectl, bound to one kubeconfig and context."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.process import CommandError, run

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """kubectl with its cluster named explicitly, so that no ambient context is ever used."""

    program: Path
    kubeconfig: Path
    context: str

    @property
    def prefix(self) -> list[str]:
        """The command line up to the verb."""
        return [str(self.program), f"--kubeconfig={self.kubeconfig}", f"--context={self.context}"]

    def run(self, *words: str) -> str:
        """Run `kubectl <words>` and return its output."""
        return run([*self.prefix, *words], timeout_seconds=60)

    def items(self, kind: str, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind, empty if the cluster does not know the kind (of several, it must know all).

        Args:
            kind: As kubectl spells it, with its group: `jobs.batch.volcano.sh`; or several of them, with commas.
            namespace: None for those of every namespace, and for kinds that have none.
            selector: Labels that they must carry.
        """
        where = ["--all-namespaces"] if namespace is None else ["-n", namespace]
        try:
            answer = self.run("get", kind, *where, "-l", selector, "-o", "json")
        except CommandError as error:
            if "," not in kind and "doesn't have a resource type" in error.output:
                return []
            raise
        return json.loads(answer)["items"]

    @contextmanager
    def port_forward(self, target: str, namespace: str, port: int) -> Generator[str]:
        """Forward a free loopback port to `target`'s port while the block runs; yields host:port."""
        command = [*self.prefix, "port-forward", "-n", namespace, "--address=127.0.0.1", target, f":{port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                yield _forwarded_address(process)
            finally:
                process.terminate()


def _forwarded_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        match = re.search(r"Forwarding from (127\.0\.0\.1:\d+)", line)
        if match:
            return match.group(1)
    raise CommandError(["kubectl", "port-forward"], process.wait(), printed, None)
