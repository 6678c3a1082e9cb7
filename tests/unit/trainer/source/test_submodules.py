"""Submodules come as the commits that their parents name, from where these say, and without anybody's password."""

from __future__ import annotations

import pytest

from tests.fixtures.git_server import GitServer, Repository, git
from tests.tables import each_row
from tests.unit.trainer.source.conftest import PASSWORD
from tests.unit.trainer.source.fetched import files, record_of
from trainer.source import submodules
from trainer.source.address import path_on_server, reached_as, resolved, server_of


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


@pytest.mark.parametrize(("on", "status"), [("the same server", 0), ("another", 1), ("another, relative", 1)])
def test_only_the_repositorys_own_server_gets_its_password(repository, fetch, credentials_dir, capfd, *, on, status):
    library = Repository(repository.folder.with_name("library"))
    library.commit({"loss.py": "x"})
    repository.commit({"train.py": "print()"})
    served = (library.folder.parent, ("robot", PASSWORD))
    with GitServer(served[0], credentials=served[1]) as own, GitServer(served[0], credentials=served[1]) as other:
        elsewhere = {"another": other.url, "another, relative": f"../../{other.url.removeprefix('http://')}"}
        address = f"{elsewhere.get(on, '..')}/library"
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
        ("git@example.com:library", "ssh needs a key"),
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


def test_a_submodule_that_is_not_to_be_updated_is_an_empty_folder(repository, library, fetch, destination, tmp_path):
    library.commit({"library.py": "x"})
    library.add_submodule(
        "data", "git@secret.example:data.git", "0123456789" * 4, name='data"]\n\tupdate = none\n[submodule "data'
    )
    repository.commit({"code/train.py": "print()"})
    for name in ("code/none", "none"):
        repository.add_submodule(name, "https://gone.example/x", "0123456789" * 4, name=name)
        git(repository.folder, "config", "--file", ".gitmodules", f"submodule.{name}.update", "none")
    repository.add_submodule("code/library", "../library", library.head())
    shared = ("--record", str(tmp_path / "out" / "source.json"), "--store", str(tmp_path / "out" / "store"))
    assert fetch("--branch", "main", "--subdirectory", "code", *shared) == 0
    assert files(destination).keys() >= {"train.py", "library/library.py"}
    assert [*(destination / "none").iterdir(), *(destination / "library" / "data").iterdir()] == []
    other = tmp_path / "other"
    assert fetch("--branch", "main", "--subdirectory", "code", *shared, "--take", "--destination", str(other)) == 0
    assert files(other) == files(destination)


@each_row(
    ("parent", "address", "fetched"),
    [
        ("https://git.example/team/a", "../b.git", "https://git.example/team/b.git"),
        ("https://git.example/team/a", "git@git.example:team/b.git", "https://git.example/team/b.git"),
        ("https://git.example:8443/team/a", "ssh://git@git.example/team/b c", "https://git.example:8443/team/b%20c"),
        ("https://git.example/team/a", "ssh://git@git.example:2222/b", "ssh://git@git.example:2222/b"),
        ("https://git.example/team/a", "git@other.example:b", "git@other.example:b"),
        ("git@git.example:team/a.git", "../b.git", "git@git.example:team/b.git"),
        ("git@git.example:team/a.git", "https://git.example/b", "https://git.example/b"),
        ("ssh://git@git.example/team/a", "../../b", "ssh://git@git.example/b"),
    ],
)
def test_where_a_submodule_is_fetched_from(parent, address, fetched):
    assert reached_as(parent, resolved(parent, address)) == fetched


@pytest.mark.parametrize(
    "parent",
    [
        "https://git.example/a",
        "https://git.example/team/a.git",
        "https://git.example:8443/team/deep/a/",
        "git@git.example:team/deep/a.git",
        "git.example:/srv/a",
        "ssh://git@git.example:2222/~/a b.git",
    ],
)
def test_relative_addresses_lead_where_git_goes(tmp_path, parent):
    written = ("../b.git", "./b", "../../b.git", "./../b/", ".././b", "../b%20c", "../../other.example/b", "../")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "remote", "add", "origin", parent)
    for number, address in enumerate(written):
        git(tmp_path, "config", "--file", ".gitmodules", f"submodule.{number}.path", str(number))
        git(tmp_path, "config", "--file", ".gitmodules", f"submodule.{number}.url", address)
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{'0123456789' * 4},{number}")
    git(tmp_path, "submodule", "init")
    got = [git(tmp_path, "config", f"submodule.{number}.url").strip().rstrip("/") for number in range(len(written))]
    assert [resolved(parent, address) for address in written] == got


@each_row(
    ("address", "path"),
    [
        ("git@git.example:team/a.git", "team/a.git"), ("git.example:/srv/a b%20", "/srv/a b%20"),
        ("ssh://git@git.example/team/a%20b", "/team/a b"), ("git+ssh://git@git.example/~/a", "/~/a"),
        ("git@git.example:~/a:b", "~/a:b"),
    ],
)  # fmt: skip
def test_the_path_that_a_server_is_asked_for(address, path):
    assert (path_on_server(address), server_of(address)) == (path, ("ssh", "git.example", 22))


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
