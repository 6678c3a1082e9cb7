"""Which versions are read from go.mod files and programs, and which of them fit."""

import pytest

from tests.tables import each_row
from tools.toolchain.errors import ToolchainError
from tools.toolchain.versions import Fit, Version, go_version, parse_version, required_version

GO_MOD = """module example

go 1.26.0

require example.com/single v1.2.3 // v9.9.9-not-a-release

require (
	example.com/plain v1.34.4
	example.com/plain-longer v7.0.0
	example.com/tool/v3 v3.232.0 // indirect
	example.com/tagged/v4 v4.0.0-20260115033456-f47bc2d6f199 // v4.25.0
	example.com/untagged v0.0.0-20260115033456-f47bc2d6f199 // indirect
)
"""


@pytest.fixture
def go_mod(tmp_path):
    file = tmp_path / "go.mod"
    file.write_text(GO_MOD)
    return file


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("example.com/plain", Version(1, 34, 4)),
        ("example.com/tool/v3", Version(3, 232, 0)),
        ("example.com/tagged/v4", Version(4, 25, 0)),
    ],
)
def test_version_of_a_requirement(go_mod, module, expected):
    assert required_version(go_mod, module) == expected


@pytest.mark.parametrize("module", ["example.com/absent", "example.com/untagged", "example.com/single"])
def test_a_requirement_without_a_release_is_refused(go_mod, module):
    with pytest.raises(ToolchainError, match=module):
        required_version(go_mod, module)


def test_go_version(go_mod):
    assert go_version(go_mod) == Version(1, 26, 0)


@each_row(
    ("text", "expected"),
    [
        ("Kubernetes v1.34.4", Version(1, 34, 4)),
        ("etcd Version: 3.6.16\nGit SHA: x\nGo Version: go1.26.8", Version(3, 6, 16)),
        ("kwokctl version v0.8.0 go1.26.8 (linux/amd64)", Version(0, 8, 0)),
        ("v3.232.0\n", Version(3, 232, 0)),
        ("Client Version: v1.34.1+k3s1", Version(1, 34, 1)),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", None),
        ("v3.233.0-alpha.1", None),
        ("no number here", None),
    ],
)
def test_version_in_what_a_program_prints(text, expected):
    assert parse_version(text) == expected


@each_row(
    ("fit", "accepted", "refused"),
    [
        (Fit.SAME_MINOR, ["1.34.0", "1.34.9"], ["1.33.9", "1.35.0", "2.34.4"]),
        (Fit.NEAR_MINOR, ["1.33.0", "1.34.4", "1.35.9"], ["1.32.9", "1.36.0", "2.34.4"]),
        (Fit.NOT_OLDER, ["1.34.4", "1.35.0"], ["1.34.3", "2.0.0"]),
        (Fit.NEVER, [], ["1.34.4"]),
    ],
)
def test_fit(fit, accepted, refused):
    pinned = Version(1, 34, 4)
    assert all(fit.accepts(parse_version(text), pinned) for text in accepted)
    assert not any(fit.accepts(parse_version(text), pinned) for text in refused)
