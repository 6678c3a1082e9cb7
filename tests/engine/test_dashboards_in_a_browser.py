"""The pages of `make dashboards` in a real browser, which draws them and runs nothing that a label brings."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from infra.monitoring.dashboards import dashboards
from tests.unit.tools.operations.dashboards import hostile
from tests.unit.tools.operations.dashboards.fake_prometheus import FakePrometheus, serving
from tools.operations.dashboards.commands import View, draw, write
from tools.operations.dashboards.prometheus import Prometheus
from tools.toolchain.system_packages import SystemPackage, ensure_system_packages

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000.0
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = SystemPackage(name="chromium", any_of=PROGRAMS)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    # Enough for its own clock to have drawn everything; it does not wait where nothing is left to do.
    "--virtual-time-budget=60000",
    "--enable-logging=stderr",
)  # fmt: skip


@pytest.fixture(scope="module")
def pages():
    with serving(FakePrometheus(answer=hostile.answer)) as fake:
        return draw(Prometheus(fake.address), View(), NOW)


@pytest.fixture(scope="module")
def folder(pages, tmp_path_factory) -> Path:
    return write(pages, tmp_path_factory.mktemp("pages")).parent


@pytest.fixture(scope="module")
def browser() -> str:
    ensure_system_packages(packages=[BROWSER])
    return next(path for program in PROGRAMS if (path := shutil.which(program)))


def _opened(browser: str, page: Path, profile: Path) -> tuple[str, list[str]]:
    """Return the page as the browser has it in the end, and what was said on its console."""
    command = [browser, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        document, said = process.communicate(timeout=300)
    finally:
        # Its helpers go with it, whatever became of it.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return document, [line for line in said.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("uid", dashboards())
def test_a_page_draws_all_of_its_panels_without_a_word_on_the_console(browser, folder, pages, tmp_path, uid):
    document, console = _opened(browser, folder / f"{uid}.html", tmp_path)
    assert console == []
    page = next(page for page in pages if page.board["uid"] == uid)
    figures = len(re.findall(r"<script [^>]*data-figure", document))
    assert f'data-drawn="{figures}"' in document
    assert figures + document.count("<table>") == page.with_data
    # One picture a figure; plotly lays lines, text and what the pointer shows into pictures of their own.
    drawn = re.findall(r'<div class="figure[^"]*"[^>]*>(?:(?!<script).)*?<svg', document, flags=re.DOTALL)
    assert len(drawn) == figures
    assert "<title>owned</title>" not in document


def test_the_list_is_shown(browser, folder, tmp_path):
    document, console = _opened(browser, folder / "index.html", tmp_path)
    assert console == []
    assert document.count("<section") == len(dashboards())


def test_a_script_that_is_not_ours_does_not_run(browser, folder, tmp_path):
    """Were a label not escaped, the page's policy would still keep it from running; and it would be seen here."""
    page = folder / "broken.html"
    whole = (folder / "athanor-queues.html").read_text(encoding="utf-8")
    page.write_text(whole.replace("<main>", "<main><script>document.title = 'owned'</script>"), encoding="utf-8")
    document, console = _opened(browser, page, tmp_path)
    assert "<title>owned</title>" not in document
    assert any("Content Security Policy" in line for line in console)
