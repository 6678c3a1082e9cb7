"""Runs `go` so that it uses only what go.sum verifies, and writes only into the cache."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.process import CommandError, run
from tools.toolchain.errors import ToolchainError
from tools.toolchain.tool import arch

if TYPE_CHECKING:
    from tools.progress import Progress

_COMPILERS = {
    # A package is compiled by a process of its own, which ends before it has used much: collecting its garbage, and the
    # threads for that, take a third of its time. The limit is for Alibaba Cloud's one huge package, which needs 3 GB.
    "GOGC": "off",
    "GOMEMLIMIT": "4GiB",
    "GOMAXPROCS": "1",
}
_REPORT_SECONDS = 10.0
_SHOWN_LINES = 12


@dataclass(frozen=True, kw_only=True)
class Go:
    """The `go` program and the file that its output is appended to."""

    program: Path
    log: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables for `go`: the machine's settings of proxies and mirrors hold, those that shape a build do not."""
        folder = paths().cache / "go"
        user_settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "go" / "env"
        return {
            "GOPATH": str(folder),
            "GOMODCACHE": str(folder / "mod"),
            "GOCACHE": str(folder / "build"),
            "GOTMPDIR": str(folder / "tmp"),
            "GOENV": os.environ.get("GOENV") or str(user_settings),
            # Go counts its own use below XDG_CONFIG_HOME.
            "XDG_CONFIG_HOME": str(folder / "config"),
            # go.sum decides what is accepted. A writable module cache can be deleted like any folder.
            "GOFLAGS": "-mod=readonly -modcacherw",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "GOOS": "linux",
            "GOARCH": arch(),
            "CGO_ENABLED": "0",
        }

    def output(self, command: list[str], folder: Path) -> str:
        """Run a `go` command that talks to the module proxy; return what it prints.

        Raises:
            ToolchainError: a module is not available or differs from go.sum.
        """
        # If only the cache of Go was deleted, all tools are still there, and nothing else has created this folder.
        Path(self.environment["GOTMPDIR"]).mkdir(parents=True, exist_ok=True)
        try:
            return run([self.program, *command], cwd=folder, env=self.environment, log=self.log)
        except CommandError as error:
            raise ToolchainError(f"{error}\nFix: make a Go module proxy reachable (GOPROXY)") from error

    def module_folder(self, graph: Path, module: str) -> Path:
        """Return the folder with the files of a module of `graph`, downloaded and compared with go.sum."""
        return Path(json.loads(self.output(["mod", "download", "-json", module], graph))["Dir"])

    def compile(self, arguments: list[str], folder: Path, total: int, report: Progress | None) -> None:
        """Run `go build` with these arguments, telling from time to time how many of `total` packages are done.

        Raises:
            ToolchainError: something does not compile.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        said_at = time.monotonic()
        last_lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        with (
            self.log.open("a", encoding="utf-8", buffering=1) as log,
            subprocess.Popen(
                [str(self.program), "build", "-v", f"-p={len(os.sched_getaffinity(0))}", *arguments],
                cwd=folder,
                env={**os.environ, **self.environment, **_COMPILERS},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            assert process.stderr
            for count, line in enumerate(process.stderr, start=1):
                log.write(line)
                last_lines.append(line)
                if report and time.monotonic() - said_at >= _REPORT_SECONDS:
                    report.detail(f"compiled {count} of at most {total} packages, now {line.strip()}")
                    report.advance(count, total)
                    said_at = time.monotonic()
        if process.returncode != 0:
            raise ToolchainError(f"compilation failed; whole log: {self.log}\n{''.join(last_lines)}")
