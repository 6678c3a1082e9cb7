"""The report: complete, readable as Markdown, and free of secrets."""

from tests.tables import each_row
from tools.acceptance.findings import Entry, Findings
from tools.acceptance.report import MASK, Heading, markdown, masked, summary
from tools.acceptance.runner import Step

HEADING = Heading(
    stack="dev", where="cn-hangzhou", code="abc", began="10:00", ended="11:00", cost="Known: CNY 8.20", next_step=""
)
STEPS = [Step(name=name, title=name.title(), run=lambda _, __: None) for name in ("up", "job", "network", "destroy")]


def entry(step, status="passed", reason="", findings=None):
    return Entry(step=step, status=status, reason=reason, began="10:00", seconds=61, findings=findings or Findings())


def text(*entries, environment=None):
    return markdown(HEADING, STEPS, entries, environment or {})


def test_every_step_has_its_line_and_its_reason():
    lines = text(entry("up"), entry("job", "failed", "torch | sees\nno GPU"), entry("network", "skipped", "one node"))
    assert "| Up | `up` | passed | 1:01 |  |" in lines
    assert "| Job | `job` | **FAILED** | 1:01 | torch \\| sees no GPU |" in lines
    assert "| Destroy | `destroy` | not run yet |  |  |" in lines
    assert "| result | 1 passed, 1 failed, 1 skipped |" in lines
    assert summary([]) == "nothing ran"


def test_differences_are_a_list_to_file():
    findings = Findings()
    findings.compare("version of the add-on coredns", "v1.12.1.3", "v1.13.0.1")
    findings.compare("version of the add-on coredns", "v1.12.1.3", "v1.13.0.1")
    lines = text(entry("up", findings=findings)).splitlines()
    assert lines.count(
        "- [ ] `up`: version of the add-on coredns. Expected: v1.12.1.3. Real: v1.13.0.1."
    ) == 1  # fmt: skip


def test_what_was_not_tried_is_said_also_where_a_step_passed():
    findings = Findings()
    findings.figure("training", "skipped: no real node")
    report = text(entry("job", findings=findings), entry("network", "skipped", "one node"))
    assert "- `network`: one node\n" in report
    assert "- `job`: training: skipped: no real node\n" in report


def test_evidence_cannot_end_its_own_fence():
    findings = Findings()
    findings.saw("kubectl logs", "before\n```\n# not a heading")
    assert "````text\nbefore\n```\n# not a heading\n````" in text(entry("up", findings=findings))


@each_row(
    "secret",
    [
        "LTAI5tFakeFakeFakeFake12",
        "STS.NTabcdefghijklmnop",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
        "verysecretkey",
    ],
)
def test_secrets_are_masked(secret):
    findings = Findings()
    findings.saw("env", f"before {secret} after")
    findings.figure("key", secret)
    report = text(entry("up", "failed", f"refused {secret}", findings), environment={"MY_SECRET_KEY": "verysecretkey"})
    assert secret not in report
    assert (
        f"before {'LTAI' if secret.startswith('LTAI') else 'STS.' if secret.startswith('STS') else ''}{MASK}" in report
    )


@each_row(
    ("said", "environment", "masked_text"),
    [
        ("client-key-data: TUlJ", {}, f"client-key-data: {MASK}"),
        (
            "https://ecs/?AccessKeyId=abc&Signature=x%3D&Action=Describe",
            {},
            f"https://ecs/?AccessKeyId={MASK}&Signature={MASK}&Action=Describe",
        ),
        # Numbers of accounts keep their last digits.
        ("acs:ram::1234567890123456:root", {}, "acs:ram::************3456:root"),
        ("24577032192 bytes, 2026-11-22", {}, "24577032192 bytes, 2026-11-22"),
        # Variables that name files or short words are not secrets.
        (
            "true /etc/token /usr/bin:/bin",
            {"SSL_TOKEN_FILE": "/etc/token", "NO_TOKEN": "true", "PATH": "/usr/bin:/bin"},
            "true /etc/token /usr/bin:/bin",
        ),
    ],
)
def test_what_is_masked_and_what_is_not(said, environment, masked_text):
    assert masked(said, environment) == masked_text
