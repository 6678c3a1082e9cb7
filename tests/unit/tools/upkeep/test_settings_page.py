"""docs/settings.md is that of the settings model."""

from tools.upkeep.settings_page import PAGE, reference_page


def test_the_settings_page_is_the_one_that_the_code_writes():
    assert PAGE.read_text(encoding="utf-8") == reference_page(), "run `make lock`, which writes docs/settings.md"
