"""Each rule fires on the phrase that it is for, and leaves alone good English that looks like it."""

from tests.tables import each_row
from tools.prose.__main__ import phrases
from tools.prose.words import RULES

REPORTED = {
    "'a b' is no DNS label": "is no",
    "Shapes that are\nno multiples of 8": "are no",
    "It listens beside the server": "beside",
    "The node is made in the zone of its first pod": "is made",
    "Resources are then made again": "are then made",
    "an object made by the stack": "made",
    "the second up makes the volumes.": "makes the volumes",
    "It makes a new node pool for each zone": "makes a new node pool",
    "The files are written anew": "anew",
    "ranks are told who they are": "told",
    "The rule tells whether it fires": "tells",
    "a policy without a way out": "way out",
    "settings fixed at birth": "at birth",
    "fields it is born with": "born with",
    "It would veto for ever": "for ever",
    "whoever asks gets it": "whoever",
    "the newest checkpoint": "the newest",
    "Training goes on with the rest": "goes on",
    "no zone is to be had": "to be had",
    "It prints such a one's message": "such a one",
    "The key lies in the state": "lies",
    "Nobody's placeholders": "Nobody's",
}

LEGITIMATE = (
    "There is no account here.", "where there\nare no credentials", "It is no longer needed", "It is no more than one",
    "The answer is no.", "That is beside the point", "a request is made by the provider", "the changes made by hand",
    "It is made of steel", "GPUs are made available to pods", "make up", "make a job wait", "makes the node unusable",
    "makes sure that a job runs", "the ranks cannot be told apart", "what tells one pool from another",
    "forever", "in every way", "the latest checkpoint; the newer one is larger", "what is going on",
    "It goes on the node", "to lie in wait", "such as one pod",
)  # fmt: skip


@each_row("text", REPORTED)
def test_a_phrase_is_reported(text):
    assert [finding.phrase for finding in phrases(text)] == [REPORTED[text]]


@each_row("text", LEGITIMATE)
def test_good_english_is_not_reported(text):
    assert phrases(text) == []


def test_every_rule_is_tried():
    unused = [rule.pattern for rule in RULES if not any(rule.compiled.search(text) for text in REPORTED)]
    assert unused == []


def test_a_finding_names_line_and_remedy():
    (finding,) = phrases("One line,\n\nand it waits for ever.")
    assert str(finding) == '3: "for ever": write forever'
