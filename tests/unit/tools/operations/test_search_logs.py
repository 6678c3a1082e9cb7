"""Searching the logs of everything: what is asked, and what a person sees."""

import json

import pytest

from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.tools.operations.stored_logs import StoredLogs
from tools.operations.search_logs import Search, search


def answer(logs: StoredLogs, *lines: bytes) -> None:
    logs.say.append(lambda handler: handler.send_chunks(200, *lines))


def test_lines_are_shown_by_time_with_their_pod(logs, store, capfd):
    logs.add(2, "b-0", "two \x1b[31mred\x07")
    logs.add(1, "a-0", "one", container="c", level="error", rank="3")
    rows = [row for row in logs.rows if row.pop("rank", "3")]
    logs.say.append(lambda handler: handler.send_chunks(200, *(_json(row) for row in rows)))
    search(store, Search(query="*"))
    assert capfd.readouterr().out.splitlines() == [
        "2026-11-21T10:00:00.000001Z [ml/a-0/c] error one",
        "2026-11-21T10:00:00.000002Z [ml/b-0/worker] two red\\x07",
    ]


def test_fields_that_a_query_makes_of_what_was_printed_only_show(store, logs, capfd):
    answer(logs, _json({"_time": "\x1b[2Jnow\x07", "_stream": '{kubernetes.pod_name="\x9bp"}', "_msg": "text"}))
    search(store, Search(query="* | unpack_json"))
    assert capfd.readouterr().out == "now\\x07 [/\\x9bp/] text\n"


def _json(row: dict[str, str]) -> bytes:
    return json.dumps(row).encode() + b"\n"


def test_the_query_goes_as_it_is_with_its_bounds(logs, store):
    answer(logs)
    search(store, Search(query='level:"a b" | stats by (x) count()', since="2d", limit=7, namespace='m"l'))
    [asked] = logs.asked
    assert asked == {
        "path": "/select/logsql/query",
        "query": 'level:"a b" | stats by (x) count()',
        "start": "2d",
        "limit": "7",
        "extra_stream_filters": '{kubernetes.pod_namespace="m\\"l"}',
    }


def test_statistics_keep_their_order(logs, store, capfd):
    answer(logs, b'{"rank":"2","n":"20"}\n', b'{"rank":"1","n":"3"}\n')
    search(store, Search(query="* | stats by (rank) count() n"))
    assert capfd.readouterr().out.splitlines() == ["n=20 rank=2", "n=3 rank=1"]


def test_what_was_left_out_is_reported(logs, store, capfd):
    answer(logs, b'{"n":"1"}\n', b'{"n":"2"}\n')
    search(store, Search(query="*", limit=2))
    assert "Only the latest 2 lines are printed: set LIMIT= for more." in capfd.readouterr().err
    answer(logs)
    search(store, Search(query="*", since="30m"))
    assert "Nothing in the last 30m: set SINCE= to search further back." in capfd.readouterr().err


@each_row(
    ("wrong", "field"),
    [
        ({"query": " "}, "QUERY"),
        ({"since": ""}, "SINCE"),
        ({"since": "1h; rm"}, "SINCE"),
        ({"since": "0h"}, "SINCE"),
        ({"since": "yesterday"}, "SINCE"),
        ({"limit": 0}, "LIMIT"),
        ({"limit": 100_001}, "LIMIT"),
    ],
)
def test_what_cannot_be_searched_is_refused(wrong, field):
    with pytest.raises(RefusalError, match=rf"^{field} = .*Fix: "):
        Search(**{"query": "*", **wrong})
