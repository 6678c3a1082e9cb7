"""What passes between the tools and the store: queries as they are, answers to their end."""

import pytest

from athanor.inspection.log_store import LogStore, LogStoreError, Origin, RejectedQueryError, origin, quoted
from infra.monitoring import NAMESPACE, VICTORIA_LOGS_PORT
from tests.unit.tools.operations.stored_logs import StoredLogs
from tools.operations.commands import NoLogStoreError, log_store
from tools.process import CommandError

POD = "run-0a1b2c3d-worker-0"


@pytest.mark.parametrize("query", ['a"b', "$(touch /tmp/x) `id` ; & | %0a\n+ ü=\\", "x" * 100_000])
def test_a_query_arrives_as_it_was_written(logs, store, query):
    logs.say.append(lambda handler: handler.send_chunks(200))
    assert list(store.rows(query, start="1h", limit="7")) == []
    assert logs.asked == [{"path": "/select/logsql/query", "query": query, "start": "1h", "limit": "7"}]


def test_many_answers_come_through_one_connection(logs, store):
    logs.add(1, POD)
    for _ in range(50):
        assert len(list(store.rows("{}"))) == 1
    assert logs.connections == 1


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_short_answers_have_an_end_too(logs, store, rows):
    for _ in range(2):
        logs.say.append(lambda handler: handler.send_whole(b'{"n":"1"}\n' * rows))
        assert len(list(store.rows("*"))) == rows
    assert logs.connections == 1


def test_a_connection_that_was_closed_meanwhile_is_opened_again(logs, store):
    logs.say.append(lambda handler: setattr(handler, "close_connection", True))
    logs.add(1, POD)
    assert len(list(store.rows("{}"))) == 1
    assert logs.connections == 2


def test_an_answer_that_nobody_reads_on_is_not_taken_for_the_next_one(logs, store):
    for place in range(1000):
        logs.add(place, POD, f"{place:04}")
    first = next(store.rows("{}"))
    assert first["_msg"] == "0000"
    assert [row["lines"] for row in store.rows("{} | stats by (_stream)")] == ["1000"]


@pytest.mark.parametrize(
    "broken",
    [
        lambda handler: handler.send_chunks(200, b'{"_msg":"one"}\n', cut=True),
        lambda handler: handler.send_whole(b'{"_msg":"one"}\n', missing=10),
    ],
)
def test_an_answer_without_its_end_is_not_an_answer(logs, store, broken):
    logs.say.append(broken)
    with pytest.raises(LogStoreError, match="does not answer"):
        list(store.rows("*"))


def test_what_goes_wrong_after_the_first_rows_is_reported(logs, store):
    chunks = (b'{"_msg":"one"}\n', b"cannot execute query: memory limit\n")
    logs.say.append(lambda handler: handler.send_chunks(200, *chunks))
    rows = store.rows("*")
    assert next(rows) == {"_msg": "one"}
    with pytest.raises(LogStoreError, match="cannot execute query: memory limit"):
        next(rows)


@pytest.mark.parametrize(
    ("status", "kind"), [(400, RejectedQueryError), (422, RejectedQueryError), (503, LogStoreError)]
)
def test_a_refusal_is_reported_in_the_stores_words(logs, store, status, kind):
    logs.say.append(lambda handler: handler.send_chunks(status, b"cannot parse query [((]\n"))
    with pytest.raises(kind, match=r"cannot parse query \[\(\(\]"):
        list(store.rows("(("))
    logs.add(1, POD)
    assert len(list(store.rows("{}"))) == 1, "the next query is answered"


def test_an_absent_store_is_reported():
    with StoredLogs().serve() as address:
        pass
    with pytest.raises(LogStoreError, match="does not answer"):
        list(LogStore(address).rows("*"))


def test_whose_line_it_is_a_line_cannot_say():
    stream = '{kubernetes.container_name="worker",kubernetes.pod_name="mine",kubernetes.pod_namespace="ml"}'
    forged = {"kubernetes.pod_name": "yours", "kubernetes.pod_namespace": "kube-system"}
    assert origin({"_stream": stream, **forged}) == Origin(namespace="ml", pod="mine", container="worker")
    assert origin(forged) == Origin(namespace="", pod="", container="")


def test_words_cannot_end_their_quotes():
    assert quoted('a" or "b\\') == '"a\\" or \\"b\\\\"'


def test_the_store_is_reached_through_a_forwarded_port(kubectl, fake_program, logs):
    logs.add(1, POD)
    with logs.serve() as address:
        fake_program.answer("get service/victoria-logs", "service/victoria-logs\n")
        fake_program.answer("port-forward", f"Forwarding from {address} -> 9428\n")
        with log_store(kubectl) as store:
            assert len(list(store.rows("{}"))) == 1
    asked, forwarded = fake_program.lines
    assert f"get service/victoria-logs -n {NAMESPACE}" in asked
    assert f"-n {NAMESPACE} --address=127.0.0.1 service/victoria-logs :{VICTORIA_LOGS_PORT}" in forwarded


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ('(NotFound): services "victoria-logs" not found', NoLogStoreError, r"Fix: set athanor:monitoring\.logs\.kind"),
        ("(Forbidden): no", CommandError, "Forbidden"),
    ],
)
def test_a_cluster_without_a_store_and_a_missing_permission_are_reported(kubectl, fake_program, said, kind, words):
    fake_program.answer("get service", stderr=f"Error from server {said}\n", status=1)
    with pytest.raises(kind, match=words), log_store(kubectl):
        pass
