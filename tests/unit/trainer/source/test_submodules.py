"""Submodules come as the commits that their parents name, from where these say, and without anybody's password."""

from __future__ import annotations

import pytest

from tests.fixtures.git_server import GitServer, Repository
from tests.unit.trainer.source.conftest import PASSWORD
from tests.unit.trainer.source.fetched import files, record_of
from trainer.source import submodules


@pytest.fixture
def library(repository) -> Repository:
    return Repository(repository.folder.with_name("library"))


@pytest.mark.parametrize("is_relative", [True, False])
def test_a_submodule_is_in_its_folder_at_its_commit(repository, server, fetch, destination, *, is_relative):
    library = Repository(repository.folder.with_name("library"))
    old = library.commit({"loss.py": "old", "deep/a": "1"})
    library.commit({"loss.py": "new"})
    repository.commit({"train.py": "print()"})
    repository.add_submodule("vendor/library", "../library" if is_relative else f"{server.url}/library", old)
    assert fetch("--branch", "main") == 0
    got = files(destination)
    assert (got["train.py"], got["vendor/library/loss.py"], got["vendor/library/deep/a"]) == ("print()", "old", "1")
    assert record_of(destination)["commit"] == repository.head()


def test_submodules_of_submodules_come_too_and_those_outside_of_the_subdirectory_do_not(
    repository, library, fetch, destination
):
    inner = Repository(repository.folder.with_name("inner"))
    first = inner.commit({"inner.py": "inner"})
    library.commit({"library.py": "library"})
    library.add_submodule("inner", "../inner", first)
    repository.commit({"code/train.py": "print()", "other/a": "1"})
    repository.add_submodule("code/library", "../library", library.head())
    repository.add_submodule("other/gone", "../gone", first, name="gone")
    assert fetch("--branch", "main", "--subdirectory", "code") == 0
    assert files(destination) == {
        "train.py": "print()", "library/.gitmodules": (library.folder / ".gitmodules").read_text(),
        "library/library.py": "library", "library/inner/inner.py": "inner",
    }  # fmt: skip
    assert fetch("--branch", "main") == 1


def test_other_pods_take_them_from_the_store(repository, library, fetch, destination, tmp_path):
    library.commit({"loss.py": "x"})
    repository.commit({"train.py": "print()"})
    repository.add_submodule("library", "../library", library.head())
    shared = ("--record", str(tmp_path / "out" / "source.json"), "--store", str(tmp_path / "out" / "store"))
    assert fetch("--branch", "main", *shared) == 0
    another = tmp_path / "another"
    assert fetch("--branch", "main", *shared, "--take", "--destination", str(another)) == 0
    assert files(another) == files(destination)


@pytest.mark.parametrize(("on", "status"), [("the same server", 0), ("another", 1)])
def test_only_the_repositorys_own_server_gets_its_password(repository, fetch, credentials_dir, capfd, *, on, status):
    library = Repository(repository.folder.with_name("library"))
    library.commit({"loss.py": "x"})
    repository.commit({"train.py": "print()"})
    served = (library.folder.parent, ("robot", PASSWORD))
    with GitServer(served[0], credentials=served[1]) as own, GitServer(served[0], credentials=served[1]) as other:
        address = "../library" if on == "the same server" else f"{other.url}/library"
        repository.add_submodule("library", address, library.head())
        assert fetch("--branch", "main", "--credentials_dir", str(credentials_dir), url=f"{own.url}/code") == status
    if status:
        assert "submodule 'library' at " in (error := capfd.readouterr().err)
        assert "the server wants a user name and password" in error


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ssh://git@example.com/library", "ssh needs a key"),
        ("file:///etc", "must be an https://, http:// or ssh:// URL"),
        ("ext::sh -c true", "submodule 'library': "),
        ("https://robot:secret@example.com/library", "must hold no user name or password"),
        ("../gone", "submodule 'library' at "),
    ],
)
def test_other_addresses_are_refused_by_the_path(repository, fetch, capfd, address, said):
    repository.commit({"train.py": "print()"})
    repository.add_submodule("library", address, "0123456789" * 4)
    assert fetch("--branch", "main") == 1
    error = capfd.readouterr().err
    assert said in error
    assert "secret" not in error


def test_a_commit_that_the_server_does_not_have_is_named(repository, library, fetch, capfd):
    library.commit({"loss.py": "x"})
    repository.commit({"train.py": "print()"})
    repository.add_submodule("library", "../library", "0123456789" * 4)
    assert fetch("--branch", "main") == 1
    assert "submodule 'library' at " in capfd.readouterr().err


def test_there_are_not_more_than_anybody_has(repository, library, fetch, capfd, monkeypatch):
    monkeypatch.setattr(submodules, "MOST_SUBMODULES", 2)
    repository.commit({"train.py": "print()"})
    for number in range(3):
        repository.add_submodule(
            f"library-{number}", "../library", library.commit({"a": str(number)}), name=str(number)
        )
    assert fetch("--branch", "main") == 1
    assert "it has more than 2 submodules" in capfd.readouterr().err
