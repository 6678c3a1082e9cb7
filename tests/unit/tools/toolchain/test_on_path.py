"""Which of the machine's own programs are taken, with scripts in their place."""

import sys

import pytest

from tools.toolchain import acquire
from tools.toolchain.catalogue import TOOLS
from tools.toolchain.versions import Version

KUBECTL = TOOLS["kubectl"]
PULUMI = TOOLS["pulumi"]
PINNED = KUBECTL.version


def says(version):
    return f"echo 'Client Version: v{version}'"


def test_a_fitting_program_is_taken(programs):
    programs("kubectl", f'test "$*" = "version --client" && {says(PINNED)}')
    assert acquire.find_on_path(KUBECTL) == (programs("other", "").parent, PINNED)


def test_the_first_fitting_one_is_taken_even_if_another_comes_first(programs):
    programs("kubectl", says("1.20.0"), "first")
    programs("kubectl", says("1.32.4-dispatcher"), "second")
    third = programs("kubectl", says(PINNED), "third")
    assert acquire.find_on_path(KUBECTL) == (third.parent, PINNED)


def test_a_program_is_asked_for_its_version_once_until_it_changes(programs, monkeypatch, tmp_path):
    script = f"echo asked >>{tmp_path}/asked; {says(PINNED)}"
    program = programs("kubectl", script)
    (tmp_path / "link").symlink_to(program.parent)
    monkeypatch.setenv("PATH", f"{tmp_path}/link:{program.parent}")
    assert acquire.find_on_path(KUBECTL) == acquire.find_on_path(KUBECTL)
    assert (tmp_path / "asked").read_text() == "asked\n"
    program.write_text(program.read_text().replace(str(PINNED), "1.20.0"))
    assert acquire.find_on_path(KUBECTL) is None


@pytest.mark.parametrize("script", ["exit 3", "echo hello", "printf '\\377\\376'", "exec /bin/sleep 60"])
def test_a_program_that_prints_no_version_or_hangs_is_not_taken(programs, monkeypatch, script):
    monkeypatch.setattr(acquire, "_PROBE_SECONDS", 0.2 if "sleep" in script else 60)
    programs("kubectl", script)
    assert acquire.find_on_path(KUBECTL) is None


def test_wrappers_of_our_own_environments_are_not_taken_for_the_tool(programs, monkeypatch, tmp_path, own_folders):
    """`make test` runs in one of them while another is activated."""
    wrapper = programs("kubectl", says(PINNED))
    link = tmp_path / "link"
    link.symlink_to(wrapper.parent)
    monkeypatch.setattr(sys, "executable", str(wrapper.parent / "python"))
    assert acquire.find_on_path(KUBECTL) is None
    monkeypatch.setenv("PATH", str(link))
    assert acquire.find_on_path(KUBECTL) is None
    (own_folders.parent / "cache" / "venv" / "3.11-other").mkdir(parents=True)
    programs("kubectl", says(PINNED), "cache/venv/3.11-other/bin")
    assert acquire.find_on_path(KUBECTL) is None


def test_the_engine_is_taken_only_with_its_language_host_next_to_it(programs):
    newer = Version(PULUMI.version.major, PULUMI.version.minor + 1, 0)
    programs("pulumi", f"echo v{newer}")
    assert acquire.find_on_path(PULUMI) is None
    for name in ("pulumi-language-python", "pulumi-language-python-exec"):
        folder = programs(name, "").parent
    assert acquire.find_on_path(PULUMI) == (folder, newer)


def test_the_engine_is_found_behind_a_link(programs, monkeypatch, tmp_path):
    for name in PULUMI.programs:
        folder = programs(name, f"echo v{PULUMI.version}").parent
    links = tmp_path / "links"
    links.mkdir()
    (links / "pulumi").symlink_to(folder / "pulumi")
    monkeypatch.setenv("PATH", str(links))
    assert acquire.find_on_path(PULUMI) == (folder, PULUMI.version)


def test_what_goes_into_an_image_is_never_taken_from_the_machine(programs):
    programs("coredns", f"echo CoreDNS-{TOOLS['coredns'].version}")
    assert acquire.find_on_path(TOOLS["coredns"]) is None
