"""The pictures of the README: they are there, and safe and small wherever they are shown."""

import re
import xml.etree.ElementTree as ET

import pytest

from tools.paths import REPOSITORY
from tools.pictures.commands import DASHBOARD, END_OF_UP, FOLDER

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"
LARGEST_BYTES = 60_000
# What a page that shows a picture must never run or load, and elements that a drawing does not need.
ACTIVE = {f"{SVG}{name}" for name in ("script", "foreignObject", "iframe", "a", "image", "use", "animate", "set")}
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(home|root|tmp|Users|work|var|opt|srv|mnt)/")
PICTURES = sorted(FOLDER.glob("*"))


@pytest.fixture(params=PICTURES, ids=lambda file: file.name)
def text(request) -> str:
    return request.param.read_text(encoding="utf-8")


def test_the_readme_shows_both_with_a_description_before_its_first_section():
    first_screen = README.partition("\n## ")[0]
    pictures = dict(re.findall(r"!\[([^\]]{20,})\]\((\S+)\)", first_screen))
    assert sorted(REPOSITORY / path for path in pictures.values()) == PICTURES == sorted([DASHBOARD, END_OF_UP])


def test_they_are_drawings_of_moderate_size(text):
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.get("viewBox")
    assert root.get("aria-label")
    assert len(text.encode()) < LARGEST_BYTES


def test_they_run_and_load_nothing(text):
    for element in ET.fromstring(text).iter():
        assert element.tag not in ACTIVE
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            assert not name.endswith("href")
            assert not re.search(r"url\((?!#)", value)
    assert not re.search(r"@import|@font-face|url\((?!#)|<!DOCTYPE|<!ENTITY|<\?xml-stylesheet", text)


def test_they_name_no_path_and_no_day(text):
    words = " ".join(ET.fromstring(text).itertext())
    assert not MACHINE_PATH.search(words)
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b", words)
