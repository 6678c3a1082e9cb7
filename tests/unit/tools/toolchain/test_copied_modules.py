"""What is different in the copy of a module, and that nothing of it goes unnoticed."""

import pytest

from tests.tables import each_row
from tools.toolchain import ToolchainError
from tools.toolchain.copied_modules import COPIED, CopiedModule, copy_module


class OneModule:
    """A `go` that has one module, at `folder`, and is asked for it from the folder that pins it."""

    def __init__(self, folder):
        self.folder = folder

    def module_folder(self, graph, module):
        assert (graph.name, module) == ("upstream", "example.com/engine")
        return self.folder


@pytest.fixture
def go(tmp_path):
    files = {
        "go.mod": "module example.com/engine",
        "main.go": "import cloud",
        "main_test.go": "tests",
        "cloud/client.go": "a cloud's",
        "cloud/errors.go": "a cloud's, too",
        "store/testdata/huge.json": "{}",
        "store/file.go": "on disk",
    }
    for name, text in files.items():
        file = tmp_path / "module" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o444)  # as in Go's module cache
    return OneModule(tmp_path / "module")


@pytest.fixture
def sources(tmp_path):
    ours = tmp_path / "sources" / "engine"
    (ours / "cloud").mkdir(parents=True)
    (ours / "cloud" / "client.go").write_text("ours")
    return tmp_path / "sources"


def copied(**differences):
    return CopiedModule(folder="engine", module="example.com/engine", **differences)


def files(sources):
    folder = sources / "engine"
    return {file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_files_of_ours_take_the_place_of_upstreams_and_tests_stay_away(go, sources):
    copy_module(go, sources, copied())
    assert files(sources) == {
        "go.mod": "module example.com/engine",
        "main.go": "import cloud",
        "cloud/client.go": "ours",
        "cloud/errors.go": "a cloud's, too",
        "store/testdata/huge.json": "{}",
        "store/file.go": "on disk",
    }


@pytest.mark.parametrize(
    ("pattern", "left_out"),
    [
        ("cloud/e*.go", {"cloud/errors.go"}),
        ("store", {"store/testdata/huge.json", "store/file.go"}),
        ("*/testdata", {"store/testdata/huge.json"}),
    ],
)
def test_files_and_folders_are_left_out(go, sources, pattern, left_out):
    copy_module(go, sources, copied())
    everything = set(files(sources))
    for file in sources.rglob("*.*"):
        if file.is_file() and file.read_text() != "ours":
            file.unlink()
    copy_module(go, sources, copied(without=(pattern,)))
    assert everything - set(files(sources)) == left_out


def test_only_parts_are_copied_to_where_they_belong(go, sources):
    copy_module(go, sources, copied(parts={"store": "kept"}))
    assert set(files(sources)) == {"cloud/client.go", "kept/testdata/huge.json", "kept/file.go"}


def test_a_line_is_changed_and_one_that_upstream_no_longer_has_is_named(go, sources):
    copy_module(go, sources, copied(changes={"main.go": {"cloud": "absent"}}))
    assert files(sources)["main.go"] == "import absent"
    with pytest.raises(ToolchainError, match=r"main\.go has no 'clouds' to replace. Fix"):
        copy_module(go, sources, copied(changes={"main.go": {"clouds": "absent"}}))


@each_row("graph", COPIED, ids=lambda graph: graph.name)
def test_each_has_a_folder_of_its_own(graph):
    folders = [one.folder for one in COPIED[graph]]
    assert sorted(set(folders)) == sorted(folders)
