"""Installations are whole or not there, also after a kill -9, and one process at a time makes them."""

import os
import signal
import subprocess
import sys

import pytest

from tools.toolchain import store
from tools.toolchain.catalogue import TOOLS

PULUMI = TOOLS["pulumi"]
PLUGIN = TOOLS["pulumi-resource-kubernetes"]


def built(tool, folder, content="program"):
    folder.mkdir(exist_ok=True)
    files = {name: folder / name for name in tool.programs}
    for file in files.values():
        file.write_text(content)
    return files


def child(code):
    """Start a Python that runs `code` with the test's folders."""
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=os.environ
    )


def test_a_tool_is_installed_when_all_its_programs_are_there_and_can_be_run(tmp_path):
    store.publish(PULUMI, built(PULUMI, tmp_path / "new"), "recipe")
    assert store.is_installed(PULUMI, "recipe")
    assert all(os.access(store.install_folder(PULUMI) / name, os.X_OK) for name in PULUMI.programs)
    (store.install_folder(PULUMI) / "pulumi-language-python-exec").unlink()
    assert not store.is_installed(PULUMI, "recipe")


def test_what_was_built_from_another_recipe_is_replaced(tmp_path):
    store.publish(PULUMI, built(PULUMI, tmp_path / "old", "old"), "old recipe")
    assert not store.is_installed(PULUMI, "new recipe")
    store.publish(PULUMI, built(PULUMI, tmp_path / "new", "new"), "new recipe")
    assert store.is_installed(PULUMI, "new recipe")
    assert (store.install_folder(PULUMI) / "pulumi").read_text() == "new"


def test_what_the_vendor_built_fits_any_recipe(tmp_path):
    store.publish(PULUMI, built(PULUMI, tmp_path / "new"), None)
    assert store.is_installed(PULUMI, "any")


def test_a_plugin_lies_where_the_engine_looks(tmp_path, monkeypatch):
    folder = store.install_folder(PLUGIN)
    assert folder == tmp_path / "cache" / "pulumi-home" / "plugins" / f"resource-kubernetes-v{PLUGIN.version}"
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "own"))
    assert store.install_folder(PLUGIN).parent == tmp_path / "own" / "plugins"


@pytest.mark.parametrize("fatal", ["rename", "chmod"])
def test_a_kill_while_installing_leaves_nothing_half(tmp_path, fatal):
    files = built(PULUMI, tmp_path / "new")
    killed = child(
        f"""
import os, signal, pathlib
from tools.toolchain import store
from tools.toolchain.catalogue import TOOLS
pathlib.Path.{fatal} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
files = {{name: pathlib.Path(file) for name, file in {[(k, str(v)) for k, v in files.items()]!r}}}
store.publish(TOOLS["pulumi"], files, "recipe")
"""
    )
    assert killed.wait() == -signal.SIGKILL
    killed.communicate()
    assert not store.is_installed(PULUMI, "recipe")
    store.publish(PULUMI, built(PULUMI, tmp_path / "again"), "recipe")
    assert store.is_installed(PULUMI, "recipe")
    assert [entry.name for entry in store.install_folder(PULUMI).parent.iterdir()] == [
        store.install_folder(PULUMI).name
    ]


class Said:
    """A progress report that acts on its messages."""

    def __init__(self, act):
        self.texts = []
        self._act = act

    def detail(self, text):
        self.texts.append(text)
        self._act()


def test_a_second_process_waits_and_continues_when_the_first_is_killed():
    holder = child(
        "from tools.toolchain import store\nwith store.locked(None):\n    print('held', flush=True)\n    input()"
    )
    assert holder.stdout.readline() == "held\n"
    report = Said(holder.kill)
    with store.locked(report):
        assert holder.wait() == -signal.SIGKILL
    holder.communicate()
    assert report.texts == ["another process is installing tools; waiting for it"]


def test_staging_starts_empty_and_ends_gone(tmp_path):
    (tmp_path / ".staging" / "left").mkdir(parents=True)
    with store.staging(tmp_path) as folder:
        assert list(folder.iterdir()) == []
    assert not folder.exists()
