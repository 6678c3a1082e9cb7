"""The whole report: complete where there is room, short where there is none, and never broken."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from athanor.review.folding import GITHUB_LIMIT, Block, fitted
from athanor.review.reading import read_preview
from athanor.review.report import MARK, report
from athanor.review.stack_review import StackReview, stack_review
from infra.cost import list_prices
from tests.unit.athanor.review.digests import (
    CLUSTER,
    CONFIG_MAP,
    JOB,
    POOL,
    SECRET_MARK,
    UNKNOWN,
    digest,
    pool,
    reported,
    reviewed,
    step,
    urn,
)  # fmt: skip

RULES = "kubernetes:monitoring.coreos.com/v1:PrometheusRule"
SECRET_WORD = "Hidden-Word-9f3a"
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20) | st.just(UNKNOWN)
)
MARKED = st.just({**SECRET_MARK, "plaintext": json.dumps(SECRET_WORD)})
VALUES = st.recursive(
    LEAVES | MARKED,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
INPUTS = st.dictionaries(st.text(max_size=12), VALUES, max_size=5)
OPERATIONS = st.sampled_from(["create", "update", "delete", "replace", "same", "refresh", "import", "discard", "?"])
TOKENS = st.sampled_from([CLUSTER, POOL, JOB, CONFIG_MAP, RULES, "kubernetes:core/v1:Secret"]) | st.text(max_size=20)
STEPS = st.builds(step, OPERATIONS, TOKENS, st.text(max_size=20), st.none() | INPUTS, st.none() | INPUTS)
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["steps", "op", "urn", "oldState", "newState", "inputs", "diagnostics", "detailedDiff"]), inner
    ), max_leaves=15,
)  # fmt: skip


def rules(*names: str, expression: str = "up == 0") -> dict[str, Any]:
    return {"spec": {"groups": [{"name": "g", "rules": [{"alert": name, "expr": expression} for name in names]}]}}


def is_balanced(text: str) -> bool:
    fences = sum(line.strip().startswith("```") for line in text.splitlines())
    return fences % 2 == 0 and text.count("<details>") == text.count("</details>")


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=5), st.text(max_size=40))
def test_whatever_changes_there_is_a_report_without_secrets(steps: list[dict[str, Any]], message: str) -> None:
    said = [{"severity": "error", "message": f"{message} {SECRET_WORD if 'plaintext' in json.dumps(steps) else ''}"}]
    text = reported(*steps, diagnostics=said)
    assert SECRET_WORD not in text
    assert len(text) <= GITHUB_LIMIT
    assert text.startswith(MARK)
    text.encode()


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(["steps", "diagnostics", "changeSummary"]), ANYTHING))
def test_whatever_the_engine_writes_there_is_a_report(document: dict[str, Any]) -> None:
    report([stack_review(read_preview(json.dumps(document), "dev"), list_prices(), "not asked")])


def test_thousands_of_resources_fit_into_a_comment() -> None:
    steps = [step("update", name=f"c{number}", old={"a": 1}, new={"a": "x" * 3000}) for number in range(4000)]
    for number, each in enumerate(steps):
        each["newState"]["parent"] = urn("a:b:Group", f"group-{number % 40}")
        each["urn"] = urn(CONFIG_MAP, f"c{number}", "a:b:Group")
    text = reported(*steps, step("delete", CLUSTER, "the-cluster", {}))
    assert len(text) <= GITHUB_LIMIT
    assert is_balanced(text)
    assert "**cluster `the-cluster` deleted**" in text
    assert "Not all of it is here" in text
    assert "4,000" in text.split("##")[0]


def test_a_long_list_is_shown_as_far_as_there_is_room() -> None:
    text = reported(*(step("update", name=f"c{number:04}", old={"a": 1}, new={"a": 2}) for number in range(3000)))
    assert 0.9 * GITHUB_LIMIT < len(text) <= GITHUB_LIMIT
    assert text.count("! a: 1 → 2") > 300
    assert is_balanced(text)


def test_many_stacks_fit_into_a_comment() -> None:
    many = [f"c{number}" for number in range(200)]
    one = [step("delete", JOB, name, {"a": 1}) for name in many]
    reviews = [stack_review(read_preview(digest(*one), f"stack-{number}"), list_prices(), "") for number in range(60)]
    text = report(reviews)
    assert len(text) <= GITHUB_LIMIT
    assert is_balanced(text)
    assert text.count("| `stack-") == 60


def test_without_a_limit_everything_is_there() -> None:
    steps = [step("update", name=f"c{number}", old={"a": 1}, new={"a": "x" * 100}) for number in range(2000)]
    text = report([reviewed(*steps)], limit=0)
    assert len(text) > GITHUB_LIMIT
    assert all(f"`c{number}`" in text for number in range(2000))


@given(
    st.lists(
        st.builds(Block, text=st.text("ab", max_size=300), short=st.text("c", max_size=20), rank=st.integers(0, 3))
    )
)
def test_no_limit_is_exceeded(blocks: list[Block]) -> None:
    assert len(fitted(blocks, 400)) <= 400


def test_what_matters_least_goes_first() -> None:
    blocks = [
        Block(text="least " * 90, short="least", rank=2),
        Block(text="most " * 90, rank=0),
        Block(text="x" * 999, rank=1),
    ]
    text = fitted(blocks, 900)
    assert text.startswith("least\n\nmost most")
    assert "1 sections are shortened and 1 left out" in text


def test_hostile_names_and_values_stay_text() -> None:
    evil = "x`|</details><img src=x>@octocat\n# title"
    change = step("update", name=evil, old={evil: "a"}, new={evil: f"```\n{evil}"}, replaceReasons=[evil])
    text = reported(
        change, step("delete", JOB, evil, {}), diagnostics=[{"severity": "warning", "message": f"```\n{evil}"}]
    )
    outside, fence = [], ""
    for line in text.splitlines():
        mark = line.strip().rstrip("dif")
        if not fence and mark.startswith("```"):
            fence = mark
        elif fence and line.strip() == fence:
            fence = ""
        elif not fence:
            outside.append(line)
    assert not any("<img" in line or "@octocat" in line or line.startswith("# title") for line in outside)
    assert fence == ""


def test_nothing_changes_is_said() -> None:
    text = reported(step("same", old={"a": 1}, new={"a": 1}))
    assert "## `dev`: nothing changes" in text
    assert "###" not in text
    assert "nothing changes" in report([stack_review(read_preview("{}"), list_prices(), "")])


def test_a_failed_preview_says_why_first() -> None:
    said = [{"severity": "error", "message": "the API server is away"}, {"severity": "info", "message": "printed"}]
    text = reported(step("create", new={}), diagnostics=said)
    assert text.index("the API server is away") < text.index("All changes")
    assert "not all of it" in text
    assert "printed" not in text


def test_alerts_and_dashboards_are_named() -> None:
    board = {"title": "Fleet", "panels": []}
    boards = [{"data": {"fleet.json": json.dumps({**board, "panels": panels})}} for panels in ([], [{"id": 1}])]
    text = reported(
        step("update", RULES, "rules", rules("Gone", "SweepFolder", "Moved"), rules("SweepFolder", "New")),
        step("create", RULES, "more", new=rules("Moved")),
        step("update", RULES, "other", rules("Slower"), rules("Slower", expression="up == 1")),
        step("update", CONFIG_MAP, "board", *boards),
    )
    assert "- Alerts removed: `Gone`\n- Alerts changed: `Slower`\n- Alerts added: `New`\n" in text
    assert "- Dashboards changed: `Fleet`\n" in text


def test_policy_findings_are_listed_mandatory_first() -> None:
    events = [
        {
            "policyEvent": {
                "policyName": name,
                "policyPackName": "p",
                "enforcementLevel": level,
                "message": f"about\n  {name}",
            }
        }
        for name, level in (("a", "advisory"), ("b", "mandatory"))
    ]
    text = report([stack_review(read_preview("\n".join(map(json.dumps, events)), "dev"), list_prices(), "")])
    assert text.index("`p/b`") < text.index("`p/a`")
    assert "`about b`" in text


def test_several_stacks_are_one_table_and_their_own_sections() -> None:
    reviews: list[StackReview] = [
        reviewed(step("update", POOL, "a10", pool(0, 1), pool(0, 2))),
        stack_review(read_preview("", "prod"), list_prices(), "not asked"),
    ]
    text = report(reviews)
    price = list_prices().of("ecs.gn7i-c8g1.2xlarge") or 0
    assert f"| `dev` | changes | 0 | 0 | 1 | 0 | 0 to +1 | 0 to +1 | 0 to +{price * 730:,.2f} |" in text
    assert "| `prod` | the preview failed | 0 |" in text
    assert text.index("## `dev`") < text.index("## `prod`")


def test_components_of_other_teams_are_listed_like_ours() -> None:
    component = step("replace", "other:team:Thing", "thing", {"a": 1}, {"a": 2}, replaceReasons=["a"])
    for state in ("oldState", "newState"):
        component[state]["custom"] = False
    text = reported(component)
    assert "- replaced `thing`, `other:team:Thing` because of `a`" in text


def test_a_change_of_a_component_is_listed_with_those_of_what_is_in_it() -> None:
    own = step("update", "athanor:infra:NodePools", "node-pools", {}, {"pool:cpu": {"lingjun": False}})
    for state in ("oldState", "newState"):
        own[state]["custom"] = False
    inside = step("create", POOL, "cpu", None, pool(0, 1), parents=("athanor:infra:NodePools",))
    inside["newState"]["parent"] = own["urn"]
    text = reported(own, inside)
    assert "<code>NodePools</code> <code>node-pools</code>: 1 changed, 1 created" in text
    assert "Outside of components" not in text
