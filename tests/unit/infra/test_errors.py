from __future__ import annotations

import subprocess
import sys

import pulumi

from infra.errors import RefusalError, choices
from infra.settings.parse import SettingsError
from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row


def test_a_refusal_names_field_value_limit_and_fix():
    refusal = RefusalError("workers", 0, "must be 1 to 9", "choose more")
    assert str(refusal) == "workers = 0: must be 1 to 9. Fix: choose more"
    assert (refusal.field, refusal.value, refusal.limit, refusal.fix) == ("workers", 0, "must be 1 to 9", "choose more")
    assert isinstance(refusal, ValueError)


def test_a_message_quotes_only_the_beginning_of_a_long_value():
    assert str(RefusalError("a", "x" * 5000, "is long", "shorten it")) == f"a = '{'x' * 199}…: is long. Fix: shorten it"
    assert str(RefusalError("a", 10**5000, "is large", "lower it")) == "a = <int>: is large. Fix: lower it"


@each_row("refusal", [RefusalError("workers", 0, "must be 1 to 9", "choose more"), SettingsError(["a", "b"])], ids=str)
def test_the_engine_shows_the_message_of_a_refusal_alone(refusal):
    # That is what it does with this class; it shows any other exception with its traceback.
    assert isinstance(refusal, pulumi.RunError)
    assert type(refusal).__name__ in {"RefusalError", "SettingsError"}


def test_a_refusal_needs_no_engine():
    program = """
import sys
from infra.errors import RefusalError
try:
    raise RefusalError("workers", 0, "must be 1 to 9", fix="choose more")
except RefusalError as error:
    assert isinstance(error, ValueError)
    assert str(error) == "workers = 0: must be 1 to 9. Fix: choose more"
    assert "pulumi" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=True)


@each_row(
    ("value", "valid", "fix"),
    [
        ("contxt", ["kubeconfig", "context"], "did you mean context?"),
        ("zzz", ["b", "a"], "use one of a, b"),
        ("a", [], "there is none to choose from"),
        ("worker", iter(["workers", "nodes"]), "did you mean workers?"),
    ],
)
def test_choices_are_near_ones_else_all(value, valid, fix):
    assert choices(value, valid) == fix


def test_at_most_three_near_names_are_offered():
    assert choices("node", [f"node{i}" for i in range(9)]).count("node") == 3
