"""traceparent headers, valid and hostile."""

from tests.tables import each_row
from trainer.serve import trace_context

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@each_row(("flags", "sampled"), [("00", False), ("01", True), ("03", True), ("02", False)])
def test_valid(flags, sampled):
    parsed = trace_context.parse([f"00-{TRACE}-{SPAN}-{flags}"])
    assert parsed == trace_context.TraceContext(TRACE, SPAN, sampled=sampled)


def test_later_version_may_have_more_fields():
    assert trace_context.parse([f"01-{TRACE}-{SPAN}-01-what-comes"]).trace_id == TRACE


@each_row(
    "values",
    [
        [],
        [""],
        ["text"],
        [f"00-{TRACE}-{SPAN}"],
        [f"ff-{TRACE}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-01-more"],
        [f"00-{'0' * 32}-{SPAN}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE.upper()}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-01\n"],
        [f"00-{TRACE}-{SPAN}-0\u0661"],
        [f"01-{TRACE}-{SPAN}-01-{'x' * 1000}"],
        [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"],
    ],
)
def test_all_else_is_ignored(values):
    assert trace_context.parse(values) is None
