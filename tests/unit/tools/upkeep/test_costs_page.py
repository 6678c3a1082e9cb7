"""The cost tables of the page are those of the settings."""

import pytest

from infra.settings.alicloud import AlicloudSettings
from tests.tables import each_row
from tools.paths import REPOSITORY
from tools.upkeep.costs_page import BEGIN, END, PAGE, cost_table, page_with_costs


def test_the_page_shows_what_the_code_computes():
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_costs(page), "run `python -m tools.upkeep.costs_page`, which writes docs/alicloud.md"


def test_every_environment_on_alibaba_cloud_is_shown():
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index(BEGIN) : page.index(END)]
    for stack in ("dev", "staging", "prod"):
        assert (REPOSITORY / f"Pulumi.{stack}.yaml").is_file()
        assert f"**{stack}**" in section
    assert "**local**" not in section


def test_only_what_stands_between_the_marks_is_written():
    written = page_with_costs(f"before\n{BEGIN}old\n{END}after\n")
    assert written.startswith(f"before\n{BEGIN}")
    assert written.endswith(f"{END}after\n")
    assert "old" not in written


@each_row("page", ["", BEGIN, END, END + BEGIN])
def test_a_page_without_marks_is_refused(page):
    with pytest.raises(ValueError, match="Fix: restore"):
        page_with_costs(page)


def test_unknown_is_written_as_unknown():
    pools = [
        {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 2},
        {"name": "l20", "role": "gpu", "instance_types": ["ecs.gn8is.4xlarge"], "maximum": 3},
        {"name": "spot", "role": "gpu", "instance_types": ["ecs.gn7i-c8g1.2xlarge"], "maximum": 2, "spot": {}},
    ]
    table = cost_table(
        AlicloudSettings.model_validate({"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": pools})
    )
    assert "| pool system | 2 | 1.05 | 2.09 | ecs.g7.xlarge |" in table
    assert "| pool l20 | 0 to 3 | unknown | 0 to unknown | ecs.gn8is.4xlarge |" in table
    assert "| pool spot | 0 to 2 | at most 9.53 | 0 to 19.07 | ecs.gn7i-c8g1.2xlarge; spot |" in table
    assert "| **together** | | | **2.73 + 3 unknown to 21.80 + 4 unknown** | |" in table
