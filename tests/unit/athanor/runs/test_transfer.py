"""Files through a program that runs commands elsewhere: here it runs them on this machine, well or badly."""

from __future__ import annotations

import os

import pytest

from athanor.runs import transfer
from athanor.runs.transfer import NoGreetingError, download, upload
from infra.errors import RefusalError


@pytest.fixture
def own(tmp_path):
    """A file that fills any pipe."""
    file = tmp_path / "own.bin"
    file.write_bytes(os.urandom(3_000_000))
    return file


@pytest.fixture
def through(tmp_path):
    """Return the words of a program that does something before and after what it runs."""

    def through(script: str) -> list[str]:
        file = tmp_path / "exec"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return [str(file)]

    return through


def test_there_and_back(own, tmp_path):
    there = upload([], own, str(tmp_path / "there"), replace=False)
    back = download([], there["path"], tmp_path / "back", replace=False)
    assert (tmp_path / "back").read_bytes() == own.read_bytes()
    assert there["sha256"] == back["sha256"]


def test_refusals_are_in_the_words_of_the_other_side(own, tmp_path):
    (tmp_path / "there").write_text("before")
    with pytest.raises(RefusalError, match=r"there': exists\. Fix: look with `athanor shell`, or replace"):
        upload([], own, str(tmp_path / "there"), replace=False)
    assert (tmp_path / "there").read_text() == "before"
    with pytest.raises(RefusalError, match="gone': does not exist"):
        download([], str(tmp_path / "gone"), tmp_path / "back", replace=False)
    with pytest.raises(FileExistsError, match="there"):
        download([], str(own), tmp_path / "there" / "before", replace=False)


def test_a_folder_that_may_not_be_written_is_named(own):
    with pytest.raises(RefusalError, match=r"/proc/own': .*(No such file|not permitted|denied)"):
        upload([], own, "/proc/own", replace=False)


def test_a_container_without_python(own):
    with pytest.raises(NoGreetingError, match="python3"):
        upload(["env", "PATH=/nowhere"], own, "/tmp/there", replace=False)


def test_a_start_that_hangs_or_is_lost_is_tried_again_before_anything_is_sent(own, tmp_path, through, monkeypatch):
    monkeypatch.setattr(transfer, "_GREETING_SECONDS", 2)
    starts = tmp_path / "starts"
    words = through(
        f'echo start >> {starts}; case "$(wc -l < {starts})" in'
        ' 1) exec sleep 60 ;; 2) echo "error: connection reset" >&2; exit 1 ;; esac; exec "$@"'
    )
    upload(words, own, str(tmp_path / "there"), replace=False)
    assert (tmp_path / "there").read_bytes() == own.read_bytes()
    assert len(starts.read_text().splitlines()) == 3


def test_a_connection_that_is_never_made(own, through):
    with pytest.raises(RefusalError, match=r"Unauthorized\. Fix: check the connection, and try again"):
        upload(through('echo "error: Unauthorized" >&2; exit 1'), own, "/tmp/there", replace=False)


def test_a_stream_that_stands_still_is_ended(own, tmp_path, through, monkeypatch):
    monkeypatch.setattr(transfer, "_STILL_SECONDS", 1)
    words = through("printf 'athanor-copy 1\\n'; exec sleep 60")
    with pytest.raises(RefusalError, match="no data was transferred for 1 s, and nothing was copied"):
        upload(words, own, "/tmp/there", replace=False)
    with pytest.raises(RefusalError, match="no data was transferred for 1 s"):
        download(words, str(own), tmp_path / "back", replace=False)
    assert not (tmp_path / "back").exists()


def test_a_refusal_ends_a_program_that_waits_for_its_input_to_be_read(own, tmp_path, through):
    """As kubectl does while bytes are on their way to a program that has ended."""
    (tmp_path / "there").write_text("before")
    words = through('"$@" < /dev/null & wait; exec sleep 60')
    with pytest.raises(RefusalError, match=r"there': exists\. Fix"):
        upload(words, own, str(tmp_path / "there"), replace=False)


def test_a_lost_connection_in_the_middle(own, tmp_path, through):
    words = through('"$@" | head -c 1000000')
    with pytest.raises(RefusalError, match=r"early|Broken pipe"):
        download(words, str(own), tmp_path / "back", replace=False)
    assert not (tmp_path / "back").exists()
    with pytest.raises(RefusalError, match="early"):
        upload(through('head -c 1000000 | "$@"'), own, str(tmp_path / "there"), replace=False)
    assert not (tmp_path / "there").exists()


def test_what_the_other_side_says_all_the_time_stops_nothing(own, tmp_path, through):
    words = through('python3 -c \'import sys; sys.stderr.write("warning\\n" * 100000)\'; exec "$@"')
    upload(words, own, str(tmp_path / "there"), replace=False)
    assert (tmp_path / "there").read_bytes() == own.read_bytes()
