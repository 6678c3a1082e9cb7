import pytest


@pytest.fixture(autouse=True)
def machine_folders(tmp_path, monkeypatch):
    """Put cache, state and plugins of every test into its own folder."""
    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PULUMI_HOME", raising=False)
    monkeypatch.delenv("ATHANOR_TOOL_SOURCES", raising=False)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that puts a shell script of a name into a folder on PATH (all of them, in order of use)."""
    folders = []

    def add(name, script, folder="bin"):
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        if path not in folders:
            folders.append(path)
        monkeypatch.setenv("PATH", ":".join(map(str, folders)))
        (path / name).write_text(f"#!/bin/sh\n{script}\n")
        (path / name).chmod(0o755)
        return path / name

    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return add
