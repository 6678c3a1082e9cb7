"""Which calls meet a fault."""

from tests.api_double.faults import ALWAYS, Faults, server_error, throttling
from tests.tables import each_row


def met(faults, *operations):
    """Make these calls and return, as text, which of them met a fault."""
    return "".join("x" if faults.meet(operation, {}) else "." for operation in operations)


@each_row(
    ("fault", "expected"),
    [
        (server_error("A"), "x....."),
        (server_error("A", call=3), "..x..."),
        (server_error("A", call=2, times=2), ".xx..."),
        (server_error("A", call=2, every=2, times=2), ".x.x.."),
    ],
)
def test_a_fault_is_met_by_the_calls_it_names_and_then_spent(fault, expected):
    faults = Faults()
    faults.add(fault)
    assert met(faults, *"AAAAAA") == expected
    assert faults.waiting() == []


def test_other_operations_do_not_count():
    faults = Faults()
    faults.add(server_error("A", call=2))
    assert met(faults, *"ABBA") == "...x"


def test_two_faults_are_met_one_after_the_other():
    faults = Faults()
    faults.add(server_error("A"), throttling("A"))
    assert [faults.meet("A", {}).code for _ in range(2)] == ["ServiceUnavailable", "Throttling.User"]


def test_the_calls_of_each_operation_count_for_themselves():
    """Else operations that are asked for in turn, and again by each update, would meet it forever."""
    faults = Faults()
    faults.add(throttling("*", call=3, every=3, times=ALWAYS))
    assert met(faults, *"ABCABCABCABC") == "......xxx..."
    assert [waiting["seen"] for waiting in faults.waiting()] == [12]
