"""Installs missing Debian packages of programs; never upgrades, removes, starts or enables anything."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.docker import docker_builds
from tools.files import write_atomically
from tools.paths import paths
from tools.process import CommandError, run
from tools.toolchain.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from tools.progress import Progress

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_INSTALL = (
    "apt-get", "install", "--yes", "--no-install-recommends", "--no-remove", "--no-upgrade",
    "-o", "DPkg::Lock::Timeout=300",
)  # fmt: skip
_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l"}
_POLICY_MARK = "# written by athanor"


class SystemPackageError(ToolchainError):
    """Programs are missing and could not be installed; the message names them and the way to get them."""


@dataclass(frozen=True, kw_only=True)
class SystemPackage:
    """A Debian package and how to see that its content is there, no matter how it was installed."""

    name: str
    any_of: tuple[str, ...]
    """Programs by name, files by absolute path: one of them is enough."""
    service: str = ""
    """The systemd unit that the package would enable for the next boot."""
    is_replaced: Callable[[], bool] | None = None
    """Returns whether something else on this machine does its work, so that it need not be there."""

    def is_missing(self) -> bool:
        """Return whether none of `any_of` is on this machine, nor what replaces them."""
        if any(_is_there(program) for program in self.any_of):
            return False
        return self.is_replaced is None or not self.is_replaced()


PACKAGES = (
    SystemPackage(name="containerd", any_of=("containerd",), service="containerd.service"),
    SystemPackage(name="runc", any_of=("runc",)),
    SystemPackage(
        name="containernetworking-plugins",
        any_of=("/usr/lib/cni/bridge", "/usr/libexec/cni/bridge", "/opt/cni/bin/bridge"),
    ),
    SystemPackage(name="iptables", any_of=("iptables",)),
    SystemPackage(name="conntrack", any_of=("conntrack",)),
    SystemPackage(name="iproute2", any_of=("ip",)),
    # A docker client alone builds nothing: many machines have one without a daemon.
    SystemPackage(name="buildah", any_of=("buildah",), is_replaced=docker_builds),
    SystemPackage(name="mmdebstrap", any_of=("mmdebstrap",)),
)
"""Programs that the local cluster and the image builds run in addition to the tools of tools.toolchain."""
SKOPEO = SystemPackage(name="skopeo", any_of=("skopeo",))
"""The program that pulls images: only needed where a registry answers."""


def ensure_system_packages(report: Progress | None = None, packages: Sequence[SystemPackage] = PACKAGES) -> list[str]:
    """Install those of `packages` whose programs are missing; return the names of the installed ones.

    Raises:
        SystemPackageError: something is missing and this is not Debian, the user is not root, or apt-get failed.
    """
    missing = [package for package in packages if package.is_missing()]
    if not missing:
        return []
    names = [package.name for package in missing]
    if shutil.which("apt-get") is None:
        programs = ", ".join(" or ".join(package.any_of) for package in missing)
        raise SystemPackageError(f"missing on this machine: {programs}. Fix: install them with its package manager")
    if os.geteuid() != 0:
        raise SystemPackageError(
            f"missing Debian packages: {', '.join(names)}. Fix: sudo apt-get install --no-install-recommends "
            f"{' '.join(names)}"
        )
    if report:
        report.detail(f"Debian packages: {', '.join(names)}")
    with _no_service_starts():
        _install(names)
    for package in missing:
        if package.service and shutil.which("systemctl"):
            run(["systemctl", "--no-reload", "disable", package.service], log=_log())
    still = [package.name for package in missing if package.is_missing()]
    if still:
        raise SystemPackageError(f"installed, but their programs were not found: {', '.join(still)}")
    return names


def _install(names: list[str]) -> None:
    try:
        run([*_INSTALL, *names], env=_QUIET, log=_log())
    except CommandError:
        # The package lists are missing or out of date, or an earlier installation was cut off half-way.
        try:
            run(["dpkg", "--configure", "-a"], env=_QUIET, log=_log())
            run(["apt-get", "update"], env=_QUIET, log=_log())
            run([*_INSTALL, *names], env=_QUIET, log=_log())
        except CommandError as error:
            raise SystemPackageError(f"{error}\nFix: make `{' '.join([*_INSTALL, *names])}` work") from error


@contextmanager
def _no_service_starts(policy: Path = Path("/usr/sbin/policy-rc.d")) -> Generator[None]:
    """Forbid packages to start their services (policy-rc.d, Debian policy manual section 9.3.3.1).

    A policy of the machine's own stays as it is. Ours ends with this process even if it is killed.
    """
    if policy.exists() and _POLICY_MARK not in policy.read_text(encoding="utf-8", errors="replace"):
        yield
        return
    write_atomically(
        policy,
        f"#!/bin/sh\n{_POLICY_MARK}: no service starts while process {os.getpid()} installs packages\n"
        f"if [ -d /proc/{os.getpid()} ]; then exit 101; fi\nexit 0\n",
        mode=0o755,
    )
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def _is_there(program: str) -> bool:
    if program.startswith("/"):
        return Path(program).exists()
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])
    return shutil.which(program, path=search) is not None


def _log() -> Path:
    return paths().logs / "system-packages.log"
