"""The Alibaba Cloud provider embeds the schema that its generator writes."""

import json

import pytest

from tools.toolchain import ToolchainError, go_build
from tools.toolchain.catalogue import ALICLOUD_PROVIDER, TOOLS
from tools.toolchain.go_build import GraphBuild, write_empty_schema, write_schema
from tools.toolchain.go_command import Go
from tools.toolchain.tool import ALICLOUD_GRAPH

GENERATOR = """#!/bin/sh
while [ "$1" != --out ]; do shift; done
printf '{\\n  "name": "alicloud"\\n}' > "$2/schema.json"
"""
FAKE_GO = """
[ "$1" = build ] || exit 0
for word; do last=$word; if [ "$previous" = -o ]; then output=$word; fi; previous=$word; done
/bin/mkdir -p "$output"
program=$output$(/usr/bin/basename "$last")
case $last in
*tfgen*) /bin/cp "$GENERATOR" "$program" ;;
*) /bin/cp "${last#./}/schema.json" "$program" ;;
esac
/bin/chmod +x "$program"
"""


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "sources" / ALICLOUD_PROVIDER).mkdir(parents=True)
    return tmp_path / "sources"


@pytest.fixture
def generator(tmp_path):
    def write(script):
        program = tmp_path / "generator"
        program.write_text(script)
        program.chmod(0o755)
        return program

    return write


def schema(sources):
    return (sources / ALICLOUD_PROVIDER / "schema.json").read_text()


def test_what_the_generator_writes_gets_the_version(sources, generator):
    write_empty_schema(sources)
    assert schema(sources) == "{}"
    write_schema(generator(GENERATOR), sources)
    version = TOOLS[ALICLOUD_PROVIDER].version
    assert schema(sources) == f'{{"name":"alicloud","version":"{version}"}}'


def test_a_generator_that_fails_is_quoted(sources, generator):
    with pytest.raises(ToolchainError, match=r"(?s)no schema.*no such resource"):
        write_schema(generator("#!/bin/sh\necho no such resource >&2\nexit 1\n"), sources)


def test_the_provider_is_compiled_with_the_schema_in_it(programs, generator, tmp_path, monkeypatch):
    monkeypatch.setattr(go_build, "copy_used_sdk", lambda *_: None)
    monkeypatch.setenv("GENERATOR", str(generator(GENERATOR)))
    go = Go(program=programs("go", FAKE_GO), log=tmp_path / "log")
    build = GraphBuild(
        graph=ALICLOUD_GRAPH, mains={ALICLOUD_PROVIDER: f"./{ALICLOUD_PROVIDER}"}, folder=tmp_path / "build"
    )
    files = build.compile(go, build.download(go), None)
    assert files.keys() == {ALICLOUD_PROVIDER}
    assert json.loads(files[ALICLOUD_PROVIDER].read_text())["name"] == "alicloud"
    assert not (ALICLOUD_GRAPH / ALICLOUD_PROVIDER / "schema.json").exists()
