"""What the examples repeat because they stand alone."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def pins(file):
    """Return the exact versions of a requirements file by package."""
    lines = [line.split("#")[0].split(";")[0].strip(" \\") for line in (REPOSITORY / file).read_text().splitlines()]
    return dict(line.split("==") for line in lines if "==" in line)


def test_the_team_has_the_versions_that_the_platform_was_tested_with():
    """Another version of pulumi-kubernetes asks for a provider plugin that the local environment does not have."""
    platform = pins("requirements.in")
    assert pins("examples/team/requirements.txt") == {name: platform[name] for name in ("pulumi", "pulumi-kubernetes")}
