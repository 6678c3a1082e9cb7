"""Watching objects, with a kubectl of this test: each watch of it prints what the test writes to the watch's pipe."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing, contextmanager, suppress

import pytest

from athanor.runs.watched import Watched, wait_for_change
from infra.errors import RefusalError

LONG = 60.0
KUBECTL = """#!/bin/sh
number=$(cat {folder}/watches 2>/dev/null || echo 0)
echo $((number + 1)) > {folder}/watches
exec cat {folder}/$number
"""


class Cluster:
    """One whose user is asked for objects by the words that the test expects."""

    def __init__(self, folder) -> None:
        program = folder / "kubectl"
        program.write_text(KUBECTL.format(folder=folder), encoding="utf-8")
        program.chmod(0o755)
        self.prefix = [str(program)]
        self.asked = 0

    def run(self, *words: str) -> str:
        assert words == ("get", "pods", "--selector=a=b", "--output=json")
        self.asked += 1
        return json.dumps({"items": [pod("asked", "Pending")]})


def pod(uid: str, phase: str) -> dict:
    return {"metadata": {"uid": uid}, "status": {"phase": phase}}


def event(kind: str, changed: dict) -> bytes:
    return (json.dumps({"type": kind, "object": changed}, ensure_ascii=False) + "\n").encode()


@contextmanager
def watch(folder, watches: int = 1):
    for number in range(watches):
        os.mkfifo(folder / str(number))
    cluster = Cluster(folder)
    with closing(Watched(cluster, "pods", "--selector=a=b")) as watched:
        yield cluster, watched


@contextmanager
def events(folder, number: int = 0):
    with (folder / str(number)).open("wb", buffering=0) as pipe:
        yield pipe


def wait_for(watched: Watched, expected: list[dict]) -> None:
    """Wait until the watch has brought the objects."""
    deadline = time.monotonic() + LONG
    while watched.now() != expected:
        assert time.monotonic() < deadline, watched.now()
        wait_for_change([watched], 0.2)


def test_objects_come_change_and_go_without_being_asked_for(tmp_path):
    with watch(tmp_path) as (cluster, watched), events(tmp_path) as pipe:
        pipe.write(event("ADDED", pod("a", "Pending")) + event("ADDED", pod("b", "Pending")))
        wait_for(watched, [pod("a", "Pending"), pod("b", "Pending")])
        cluster.asked = 0
        pipe.write(event("MODIFIED", pod("a", "Running")) + event("DELETED", pod("b", "Failed")))
        wait_for(watched, [pod("a", "Running")])
        assert cluster.asked == 0
        assert (watched.take_gone(), watched.take_gone()) == ([pod("b", "Failed")], [])


def test_an_event_that_comes_in_pieces_is_one(tmp_path):
    with watch(tmp_path) as (_, watched), events(tmp_path) as pipe:
        added = event("ADDED", {**pod("a", "Running"), "message": "größer"})
        cut = added.index("ö".encode()) + 1
        pipe.write(added[:cut])
        assert watched.now() == [pod("asked", "Pending")]
        pipe.write(added[cut:])
        wait_for(watched, [{**pod("a", "Running"), "message": "größer"}])


def test_a_change_ends_the_wait_and_silence_takes_all_of_it(tmp_path):
    with watch(tmp_path) as (_, watched), events(tmp_path) as pipe:
        pipe.write(event("ADDED", pod("a", "Running")))
        begin = time.monotonic()
        wait_for_change([watched], LONG)
        assert time.monotonic() - begin < LONG / 2
        wait_for(watched, [pod("a", "Running")])
        begin = time.monotonic()
        wait_for_change([watched], 0.3)
        assert time.monotonic() - begin >= 0.3


def test_a_watch_that_the_server_ends_begins_again_and_forgets_what_has_gone_meanwhile(tmp_path):
    with watch(tmp_path, watches=2) as (_, watched):
        with events(tmp_path, 0) as pipe:
            pipe.write(event("ADDED", pod("a", "Running")))
            wait_for(watched, [pod("a", "Running")])
        wait_for(watched, [pod("asked", "Pending")])
        with events(tmp_path, 1) as pipe:
            pipe.write(event("ADDED", pod("b", "Running")))
            wait_for(watched, [pod("b", "Running")])


def test_a_watch_that_ended_because_the_server_is_away_begins_again_when_it_answers(tmp_path):
    with watch(tmp_path, watches=3) as (cluster, watched):
        with events(tmp_path, 0) as pipe:
            pipe.write(event("ADDED", pod("a", "Running")))
            wait_for(watched, [pod("a", "Running")])
        wait_for(watched, [pod("asked", "Pending")])
        with events(tmp_path, 1):  # which the server does not answer
            pass
        answers, cluster.run = cluster.run, refused
        while watched.fileno() >= 0:
            with suppress(RefusalError):
                watched.now()
        with pytest.raises(RefusalError):
            watched.now()
        assert watched.fileno() < 0
        cluster.run = answers
        assert watched.now() == [pod("asked", "Pending")]
        with events(tmp_path, 2) as pipe:
            pipe.write(event("ADDED", pod("b", "Running")))
            wait_for(watched, [pod("b", "Running")])


def refused(*_: str) -> str:
    raise RefusalError("API server", "https://c", "does not answer", "check the network")


def test_a_user_who_may_not_watch_asks(tmp_path):
    with watch(tmp_path) as (cluster, watched):
        with events(tmp_path):
            pass
        wait_for(watched, [pod("asked", "Pending")])
        while watched.fileno() >= 0:
            watched.now()
        cluster.asked = 0
        assert watched.now() == watched.now() == [pod("asked", "Pending")]
        assert cluster.asked == 2
        assert (tmp_path / "watches").read_text(encoding="utf-8") == "1\n"
        begin = time.monotonic()
        wait_for_change([watched], 0.3)
        assert time.monotonic() - begin >= 0.3


def test_a_status_instead_of_an_object_is_none(tmp_path):
    with watch(tmp_path) as (_, watched), events(tmp_path) as pipe:
        pipe.write(event("ERROR", {"kind": "Status", "code": 410}) + event("ADDED", pod("a", "Running")))
        wait_for(watched, [pod("a", "Running")])


def test_a_server_that_does_not_answer_is_said(tmp_path):
    with watch(tmp_path) as (cluster, watched), events(tmp_path):
        cluster.run = refused
        with pytest.raises(RefusalError, match="does not answer"):
            watched.now()
