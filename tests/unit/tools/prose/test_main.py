"""`python -m tools.prose`: what it reads, prints and returns."""

import pytest

from tools.prose import __main__ as prose


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "REPOSITORY", tmp_path)
    monkeypatch.setattr(prose, "PLACES", ("README.md", "infra", "tools"))
    for folder in ("infra", "tools/prose", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "README.md").write_text("It is read.\n")
    return tmp_path


def test_it_names_file_line_phrase_and_remedy(repository, capsys):
    (repository / "README.md").write_text("First.\nIt waits for ever.\n")
    (repository / "infra" / "a.py").write_text('found = 1\n_told = "beside"\nsearch(found=found)\n')
    assert prose.main(()) == 4
    assert capsys.readouterr().out.splitlines() == [
        'README.md:2: "for ever": write forever',
        'infra/a.py:2: "beside": write next to, in addition to, with, apart from',
        'infra/a.py:1: "found": write a name that says what it holds, such as job_manifest',
        'infra/a.py:2: "_told": write a name that says what it holds, such as job_manifest',
    ]


def test_it_reads_the_names_of_functions(repository, capsys):
    (repository / "tools" / "a.py").write_text("\n\ndef test_it_waits_for_ever():\n    pass\n")
    assert prose.main(()) == 1
    assert capsys.readouterr().out == 'tools/a.py:3: "for ever": write forever\n'


def test_it_reads_what_is_checked_and_no_more(repository, capsys):
    (repository / "other" / "a.py").write_text("# whoever\nfound = 1\n")
    (repository / "tools" / "prose" / "words.py").write_text("# whoever\n")
    assert (prose.main(()), capsys.readouterr().out) == (0, "")


def test_places_can_be_named(repository):
    (repository / "other" / "a.py").write_text("# whoever\nfound = 1\n")
    assert prose.main(("other/a.py",)) == prose.main(("other",)) == 2


def test_what_is_checked_exists():
    assert [place for place in prose.PLACES if not (prose.REPOSITORY / place).exists()] == []
