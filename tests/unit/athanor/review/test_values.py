"""Nothing secret is shown, in whatever form it is marked, and it is removed from other texts."""

from __future__ import annotations

import base64
import json
from itertools import product
from typing import Any

from athanor.review.values import Embedded, Hidden, Masker, Unknown
from tests.tables import each_row
from tests.unit.athanor.review.digests import CONFIG_MAP, SECRET_MARK, UNKNOWN, reported, step

WORD = "correct-horse-battery"
ENCODED = base64.b64encode(WORD.encode()).decode()
OUTPUT_MARK = {"4dabf18193072939515e22adb298388d": "d0e6a833031e9bbcd3f4e8bde6ca49a4"}


def manifest(kind: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "s"}, **content}


SECRETS: dict[str, Any] = {
    "marked": {"a": {**SECRET_MARK, "plaintext": json.dumps(WORD)}},
    "marked-deep-inside": {"a": [{"b": {"c": {**SECRET_MARK, "plaintext": json.dumps({"d": WORD})}}}]},
    "an-output": {"a": {**OUTPUT_MARK, "value": WORD, "secret": True}},
    "a-secret's-data": manifest("Secret", data={"a": ENCODED}),
    "a-secret's-text": manifest("Secret", stringData={"a": WORD}),
    "a-secret-in-a-list": {"items": [manifest("Secret", data={"a": ENCODED})]},
    "a-secret-as-json": {"text": json.dumps(manifest("Secret", stringData={"a": WORD}))},
    "a-secret-as-yaml": {"text": f"apiVersion: v1\nkind: Secret\nstringData:\n  a: {WORD}\n"},
    "as-it-was-applied": {
        **manifest("Secret", data={}),
        "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"d": WORD})}},
    },
    "by-its-name": {"adminPassword": WORD},
    "a-variable": {"env": [{"name": "API_TOKEN", "value": WORD}]},
    "json-in-json": {"a": json.dumps({"b": json.dumps({"secretKey": WORD})})},
}


@each_row(("operation", "secret"), product(["create", "update", "replace", "delete", "same"], SECRETS))
def test_no_secret_is_printed(operation: str, secret: str) -> None:
    inputs = SECRETS[secret]
    changed = {**inputs, "other": f"--password={WORD}"}
    said = [{"severity": "error", "message": f"cannot log in with {WORD}"}]
    text = reported(step(operation, "a:b:C", "c", inputs, changed), diagnostics=said)
    assert WORD not in text
    assert ENCODED not in text
    assert "cannot log in with" in text


def test_a_resource_is_a_secret_by_its_type_too() -> None:
    old, new = ({"data": {"a": word}, "metadata": {"name": "s"}} for word in (ENCODED, "bmV3LXdvcmQ="))
    text = reported(step("update", "kubernetes:core/v1:Secret", "s", old, new))
    assert "data.a: [secret] → [secret]" in text
    assert ENCODED not in text


def test_lines_and_spellings_of_a_secret_are_removed_from_messages() -> None:
    masker = Masker()
    masker.value({"privateKey": 'first-line-of-it\nsecond "line" of it'})
    for spelled in ("first-line-of-it", 'second "line" of it', 'second \\"line\\" of it', "first-line-of-it\\nsecond"):
        assert "line-of-it" not in masker.clean(f"bad key: {spelled}")


def test_short_words_are_not_removed_from_everything() -> None:
    masker = Masker()
    assert masker.value({"password": "admin"}) == {
        "password": Hidden(masker.value({"token": "admin"})["token"].fingerprint)
    }  # type: ignore[index,union-attr,call-overload]
    assert masker.clean("kube-system/admin") == "kube-system/admin"


def test_what_is_not_secret_is_printed() -> None:
    plain = {"httpTokens": "required", "automountServiceAccountToken": False, "tokenLifetime": "1h", "password": ""}
    assert Masker().value(plain) == plain


def test_unknown_values_and_json_texts_are_recognized() -> None:
    value = Masker().value({"a": UNKNOWN, "password": UNKNOWN, "b": '{"c": 1}', "d": "{not json", "e": {**OUTPUT_MARK}})
    assert value == {
        "a": Unknown(), "password": Unknown(), "b": Embedded({"c": 1}), "d": "{not json", "e": Unknown(),
    }  # fmt: skip


def test_a_value_that_is_nested_too_deeply_is_neither_shown_nor_an_error() -> None:
    deep: Any = WORD
    for _ in range(400):
        deep = {"a": deep}
    assert WORD not in reported(step("update", CONFIG_MAP, "c", {"a": 1}, {"a": deep}))
