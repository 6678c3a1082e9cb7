"""The server's own histogram, read back by Prometheus's parser."""

from prometheus_client.parser import text_string_to_metric_families

from tests.tables import each_row
from trainer.serve.metrics import REQUEST_SECONDS_BUCKETS, Histogram, ServerMetrics, VersionMetrics


def scraped(version: VersionMetrics, name: str) -> dict[str, float]:
    server = ServerMetrics("digits")
    server.add_version(version)
    (family,) = (each for each in text_string_to_metric_families(server.render().decode()) if each.name == name)
    assert family.type == "histogram"
    assert all(sample.labels["version"] == "7" for sample in family.samples)
    return {sample.labels.get("le", sample.name.removeprefix(name)): sample.value for sample in family.samples}


def test_each_bound_counts_all_up_to_it():
    version = VersionMetrics(model="digits", version=7)
    version.batch_size = Histogram((1, 2, 4))
    for value in (1, 2, 2, 3, 9):
        version.batch_size.observe(value)
    buckets = scraped(version, "athanor_batch_size")
    assert buckets == {"1": 1, "2": 3, "4": 4, "+Inf": 5, "_sum": 17, "_count": 5}


def test_before_the_first_request_there_is_every_bucket():
    buckets = scraped(VersionMetrics(model="digits", version=7), "athanor_request_duration_seconds")
    assert buckets == {**{str(bound): 0 for bound in REQUEST_SECONDS_BUCKETS}, "+Inf": 0, "_sum": 0, "_count": 0}


@each_row("seconds", [0.0, 0.001, 0.0011, 9.9, 10.0, 11.0])
def test_no_request_is_lost(seconds):
    version = VersionMetrics(model="digits", version=7)
    version.request_seconds.observe(seconds)
    buckets = scraped(version, "athanor_request_duration_seconds")
    counted = [bound for bound in REQUEST_SECONDS_BUCKETS if buckets[str(bound)]]
    assert counted == [bound for bound in REQUEST_SECONDS_BUCKETS if seconds <= bound]
    assert buckets["+Inf"] == buckets["_count"] == 1
