"""What stays in go.sum."""

import pytest

from tools.toolchain import go_sdk, tidy
from tools.toolchain.go_command import Go
from tools.toolchain.versions import Version

GO_MOD = """module example

go 1.26.0

require (
	example.com/used v1.0.0
	example.com/replaced v1.0.0
	example.com/ours v0.0.0
)

replace example.com/replaced => example.com/other v1.5.0

replace example.com/ours => ./ours
"""
USED = """example.com/other v1.5.0 h1:AA==
example.com/other v1.5.0/go.mod h1:AA==
example.com/used v1.0.0 h1:AA==
example.com/used v1.0.0/go.mod h1:AA==
"""


@pytest.mark.built
def test_only_checksums_of_what_go_mod_names_stay(tmp_path):
    (tmp_path / "go.mod").write_text(GO_MOD)
    (tmp_path / "go.sum").write_text(
        f"example.com/replaced v1.0.0/go.mod h1:AA==\n{USED}example.com/used v0.9.0 h1:AA==\n"
    )
    tidy._drop_unused_sums(Go(program=go_sdk.find_go(Version(1, 26, 0), None), log=tmp_path / "log"), tmp_path)
    assert (tmp_path / "go.sum").read_text() == USED
