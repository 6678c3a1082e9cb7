"""What is asked of apt-get and in which state the machine is left, with scripts in the place of Debian's programs."""

import os
from pathlib import Path

import pytest

from tools.toolchain import system_packages
from tools.toolchain.system_packages import PACKAGES, SystemPackage, SystemPackageError, ensure_system_packages

WANTED = [
    SystemPackage(name="alpha", any_of=("alpha-program", "instead-of-alpha"), service="alpha.service"),
    SystemPackage(name="beta", any_of=("beta-program",)),
]


@pytest.fixture
def policy(tmp_path, monkeypatch):
    file = tmp_path / "policy-rc.d"
    original = system_packages._no_service_starts
    monkeypatch.setattr(system_packages, "_no_service_starts", lambda: original(file))
    return file


@pytest.fixture
def debian(programs, policy, tmp_path, monkeypatch):
    """Make a Debian whose programs record their calls; an installation brings `alpha-program`."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(system_packages, "_SYSTEM_FOLDERS", ())
    programs("beta-program", "")
    record = f'echo "$(/usr/bin/basename $0) $*" >> {tmp_path}/calls'
    brings = f"/bin/cp {tmp_path}/bin/beta-program {tmp_path}/bin/alpha-program"
    sees_policy = f"{policy}; echo policy $? >> {tmp_path}/calls"
    programs("apt-get", f'{record}; if [ "$1" = install ]; then {sees_policy}; {brings}; fi')
    programs("dpkg", record)
    programs("systemctl", record)
    return lambda: (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []


def test_nothing_is_called_where_nothing_is_missing(debian, programs):
    programs("instead-of-alpha", "")
    assert ensure_system_packages(packages=WANTED) == []
    assert debian() == []


def test_what_something_else_replaces_is_not_installed(debian):
    replaced = SystemPackage(name="alpha", any_of=("alpha-program",), is_replaced=lambda: True)
    assert ensure_system_packages(packages=[replaced]) == []
    assert debian() == []


@pytest.mark.usefixtures("debian")
def test_a_docker_client_without_a_daemon_replaces_no_builder(programs):
    programs("docker", "exit 1")
    [buildah] = [package for package in PACKAGES if package.name == "buildah"]
    assert buildah.is_missing()
    programs("docker", "exit 0")
    assert not buildah.is_missing()


def test_only_what_is_missing_is_installed_and_no_service_starts(debian, policy):
    assert ensure_system_packages(packages=WANTED) == ["alpha"]
    install, seen, disable = debian()
    assert install.startswith("apt-get install ")
    assert install.endswith(" alpha")
    assert {"--no-install-recommends", "--no-remove", "--no-upgrade"} <= set(install.split())
    assert seen == "policy 101"
    assert disable == "systemctl --no-reload disable alpha.service"
    assert not policy.exists()


@pytest.mark.parametrize(
    ("present", "seen", "stays"),
    [
        ("#!/bin/sh\nexit 104\n", "policy 104", True),
        (f"#!/bin/sh\n{system_packages._POLICY_MARK}: left\nexit 0\n", "policy 101", False),
    ],
    ids=["of the machine", "left by a killed installation"],
)
def test_a_policy_of_the_machine_stays_and_our_own_never(debian, policy, present, seen, stays):
    policy.write_text(present)
    policy.chmod(0o755)
    ensure_system_packages(packages=WANTED)
    assert seen in debian()
    assert (policy.exists() and policy.read_text() == present) is stays


def test_the_package_lists_are_fetched_only_if_the_installation_fails(debian, programs, tmp_path):
    fails_once = f"[ -e {tmp_path}/failed ] || {{ echo > {tmp_path}/failed; exit 100; }}"
    script = (tmp_path / "bin" / "apt-get").read_text().removeprefix("#!/bin/sh\n")
    programs("apt-get", f"{fails_once}\n{script}")
    ensure_system_packages(packages=WANTED)
    assert [" ".join(call.split()[:2]) for call in debian()][:3] == [
        "dpkg --configure",
        "apt-get update",
        "apt-get install",
    ]


@pytest.mark.usefixtures("debian")
@pytest.mark.parametrize(
    ("apt_get", "user", "said"),
    [
        pytest.param(
            "echo Unable to locate package alpha >&2; exit 100",
            0,
            r"(?s)Unable to locate.*apt-get install .* alpha",
            id="a failure names the command",
        ),
        pytest.param("", 0, "alpha", id="a package that does not bring its program is named"),
        pytest.param("exit 1", 1000, r"sudo apt-get install .* alpha$", id="another user gets the command"),
        pytest.param(None, 0, "alpha-program or instead-of-alpha", id="another system gets the programs"),
    ],
)
def test_what_cannot_be_installed_is_named(*, programs, policy, tmp_path, monkeypatch, apt_get, user, said):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    program = programs("apt-get", f"/bin/date >> {tmp_path}/calls; {apt_get}")
    if apt_get is None:
        program.unlink()
    with pytest.raises(SystemPackageError, match=said):
        ensure_system_packages(packages=WANTED)
    assert not policy.exists()
    assert (tmp_path / "calls").exists() is (user == 0 and apt_get is not None)


def test_programs_are_found_where_only_root_looks(tmp_path, monkeypatch):
    (tmp_path / "alpha-program").write_text("#!/bin/sh\n")
    (tmp_path / "alpha-program").chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(system_packages, "_SYSTEM_FOLDERS", (str(tmp_path),))
    assert not WANTED[0].is_missing()


def test_a_file_is_as_good_as_a_program(tmp_path):
    package = SystemPackage(name="plugins", any_of=(str(tmp_path / "a"), str(tmp_path / "b")))
    assert package.is_missing()
    Path(tmp_path / "b").touch()
    assert not package.is_missing()


def test_each_package_is_named_once():
    assert len({package.name for package in PACKAGES}) == len(PACKAGES)
