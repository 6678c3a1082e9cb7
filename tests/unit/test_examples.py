"""What the examples repeat because they stand alone."""

import json
import re
from pathlib import Path

from tests.tables import each_row

REPOSITORY = Path(__file__).resolve().parents[2]


def pins(file):
    """Return the exact versions of a requirements file by package."""
    lines = [line.split("#")[0].split(";")[0].strip(" \\") for line in (REPOSITORY / file).read_text().splitlines()]
    return dict(line.split("==") for line in lines if "==" in line)


def test_the_team_has_the_versions_that_the_platform_was_tested_with():
    """Another version of pulumi-kubernetes asks for a provider plugin that the local environment does not have."""
    platform = pins("requirements.in")
    assert pins("examples/team/requirements.txt") == {name: platform[name] for name in ("pulumi", "pulumi-kubernetes")}


def test_typescript_has_the_version_that_the_platform_was_tested_with():
    package = json.loads((REPOSITORY / "examples" / "typescript" / "package.json").read_text())
    assert package["dependencies"]["@pulumi/pulumi"] == pins("requirements.in")["pulumi"]


def test_npm_packages_are_locked_by_digest_and_name_no_registry():
    packages = json.loads((REPOSITORY / "examples" / "typescript" / "package-lock.json").read_text())["packages"]
    installed = {
        place: one for place, one in packages.items() if place.startswith("node_modules/") and "link" not in one
    }

    assert len(installed) > 100
    assert all(one["integrity"].startswith("sha512-") for one in installed.values())
    assert [place for place, one in installed.items() if "resolved" in one] == []


@each_row("program", ["team/__main__.py", "typescript/index.ts", "yaml/Pulumi.yaml"])
def test_training_exports_a_model_of_its_own(program):
    """The trainer's default name is that of `make up`: another job under it would replace the model that is served."""
    text = (REPOSITORY / "examples" / program).read_text()
    names = re.findall(r"--model_name=([\w{}-]+)", text)

    assert len(names) == len(re.findall(r"trainer\.(?:train|mpi_example)\b", text))
    assert "digits" not in names
