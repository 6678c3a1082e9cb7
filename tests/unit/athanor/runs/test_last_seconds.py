"""Which lines of a log that is read again were read before."""

from __future__ import annotations

from athanor.runs.pod_lines import LastSeconds


def new(read: LastSeconds, *lines: str) -> list[str]:
    return [line for line in lines if read.is_new(line.split()[0], line)]


def at(seconds: str, text: str = "x") -> str:
    return f"2026-01-01T10:00:{seconds}Z {text}"


def test_it_is_read_again_from_the_second_before_the_last_one():
    read = LastSeconds()
    assert read.since is None
    new(read, at("01"), at("04.9"), at("05.123456789"))
    assert read.since == "2026-01-01T10:00:04Z"


def test_equal_lines_are_counted():
    read = LastSeconds()
    new(read, at("01"), at("01"))
    read.begin_again()
    assert new(read, at("01"), at("01"), at("01")) == [at("01")]
    read.begin_again()
    assert new(read, at("01"), at("01"), at("01")) == []


def test_lines_that_are_not_in_the_order_of_their_times_are_none_too_few_or_many():
    read = LastSeconds()
    whole = [at("01.9"), at("02.1"), at("01.95"), at("02.0"), at("02.05")]
    new(read, *whole[:3])
    read.begin_again()
    assert new(read, *whole) == whole[3:]
    assert new(read, at("04"), at("05"), at("02.2")) == [at("04"), at("05"), at("02.2")]
    assert read.since == "2026-01-01T10:00:04Z"


def test_a_log_that_begins_later_after_its_file_was_rotated_loses_nothing():
    read = LastSeconds()
    new(read, at("01"), at("02"))
    read.begin_again()
    assert new(read, at("07"), at("08")) == [at("07"), at("08")]


def test_a_node_may_have_a_time_zone_of_its_own():
    read = LastSeconds()
    new(read, "2026-01-01T18:00:01.5+08:00 x", "2026-01-01T10:00:03.5Z y")
    assert read.since == "2026-01-01T18:00:01+08:00"
