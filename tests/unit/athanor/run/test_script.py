"""A command's script has to be among the files that the job gets."""

from __future__ import annotations

import shlex

import pytest

from athanor.run.script import check_script
from infra.errors import RefusalError
from workloads.local_folder import LocalFolder


@pytest.fixture
def source(tmp_path):
    (tmp_path / "code").mkdir()
    for name in ("train.py", "code/more.py", "generated.py"):
        (tmp_path / name).touch()
    (tmp_path / "linked").symlink_to("code")
    (tmp_path / ".gitignore").write_text("generated.py\n")
    return LocalFolder(path=str(tmp_path))


@pytest.mark.parametrize(
    "command",
    [
        "train.py --data absent.py",
        "python3.11 ./train.py",
        "sh code/more.py",
        "python linked/more.py",
        "-m absent",
        "python -m absent.py",
        "python -u absent.py",
        "/opt/absent.py",
        "../absent.py",
        "$PROGRAM.py",
        "python",
        "./absent",
    ],
)
def test_what_is_sent_or_elsewhere_is_accepted(source, command):
    check_script(shlex.split(command), source)


@pytest.mark.parametrize(
    "command", ["absent.py", "python code/absent.py --lr 1", "bash ./absent.sh", "--no-python ./absent.sh"]
)
def test_a_script_that_does_not_exist_is_refused(source, command):
    with pytest.raises(RefusalError, match=r"program = '[a-z/]*absent\.\w+': is not in /.*Fix: .*--workdir"):
        check_script(shlex.split(command), source)


def test_a_script_that_is_ignored_is_refused_with_the_line_that_takes_it_in(source, tmp_path):
    with pytest.raises(RefusalError, match=r"left out of the code by \.gitignore.* Fix: write `!/generated\.py` into"):
        check_script(["generated.py"], source)
    (tmp_path / ".athanorignore").write_text("!/generated.py\n")
    check_script(["generated.py"], LocalFolder(path=source.path))
