"""The sections of docs/dashboards.md are those of the dashboards."""

import pytest

from infra.errors import RefusalError
from tools.upkeep.dashboards_page import PAGE, page_with_panels


def test_the_documentation_is_the_one_that_the_code_writes():
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_panels(page), "run `make lock`, which writes docs/dashboards.md"


def test_documentation_without_its_markers_is_refused():
    with pytest.raises(RefusalError, match=r"lacks a marker\. Fix: restore <!-- panels"):
        page_with_panels("# Dashboards\n")
