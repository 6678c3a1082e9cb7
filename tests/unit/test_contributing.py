"""The pages and forms that contributors meet first: their links, the files that they name, and GitHub's rules."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.tables import each_row

REPOSITORY = Path(__file__).resolve().parents[2]
GITHUB = REPOSITORY / ".github"
PAGES = sorted(
    file
    for place in ("*.md", ".github/**/*.md", "docs/**/*.md", "examples/*/*.md", "policies/*.md", "tests/**/*.md")
    for file in REPOSITORY.glob(place)
    if not {"node_modules", "venv", "sdks"} & set(file.parts)
)
_LINK = re.compile(r"(?<!!)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_OWNER = re.compile(r"@[\w-]+/[\w-]+")
FORMS = [file for file in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if file.name != "config.yml"]


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings: words in lower case, joined by hyphens."""
    counts: dict[str, int] = {}
    names = set()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = counts.get(name, 0)
        counts[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def broken_links(page: Path) -> list[str]:
    """Return the links to files and headings of the repository that do not exist."""
    broken = []
    for target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    return broken


@each_row("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`: c\n\n[1](#a-b-c) [2](#other) [3](gone.md) [4](page.md#a-b-c) [5](https://example.com)\n")
    assert broken_links(page) == ["#other", "gone.md"]


def test_the_files_that_a_change_touches_exist() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files = {each for each in re.findall(r"`([^`\s]+)`", text) if "/" in each and not each.startswith("~")}
    assert len(files) > 30
    assert sorted(each for each in files if not (REPOSITORY / each).exists()) == []


def test_every_owned_path_exists_and_has_an_owner() -> None:
    lines = (GITHUB / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    rules = [line.split() for line in lines if line and not line.startswith("#")]
    assert rules[0][0] == "*"  # the last line that matches decides
    for pattern, *owners in rules:
        assert list(REPOSITORY.glob(pattern.strip("/"))), pattern
        assert owners
        assert all(_OWNER.fullmatch(owner) for owner in owners), pattern


@each_row("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_has_what_github_asks_for(form: Path) -> None:
    """Source: GitHub, "Syntax for GitHub's form schema"."""
    content: dict[str, Any] = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert set(content) == {"name", "description", "labels", "body"}
    fields = [part for part in content["body"] if part["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)
    for field in fields:
        assert field["type"] in {"input", "textarea", "dropdown"}
        assert field["attributes"]["label"]
        assert ("options" in field["attributes"]) == (field["type"] == "dropdown")


def test_hooks_are_those_of_make_check_in_its_environment() -> None:
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    first, *hooks = config["repos"][0]["hooks"]
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    check = re.search(r"^check: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert check
    commands = check[1].replace("$(TEST_PYTHON)", ".venv-test/bin/python")
    assert first["entry"] == "tools/bootstrap.sh test"
    for hook in hooks:
        assert hook["entry"].removesuffix(" --force-exclude") in commands
