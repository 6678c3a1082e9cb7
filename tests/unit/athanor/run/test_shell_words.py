"""Words of a command in quotes: the same as a shell's, and a refusal of what only a shell can do."""

from __future__ import annotations

import random
import subprocess

import pytest

from athanor.run.shell_words import shell_words
from infra.errors import RefusalError
from tests.tables import each_row

_PIECES = ["a", "b", " ", "'", '"', "\\", "#", "=", "~", "*x", "\t", "\\\n", "$ ", "''", "!", "{a,b}", "é"]
_SET = 'set -f; split() { eval "set -- $text"; printf "%s\\0" "$@"; printf "\\1"; }; for text do split; done'


def test_words_are_those_of_a_shell():
    draw = random.Random(7)
    texts = {f"run {''.join(draw.choices(_PIECES, k=8))}" for _ in range(1500)}
    words: dict[str, tuple[str, ...]] = {}
    for text in texts:
        try:
            words[text] = shell_words("command", text)
        except RefusalError:
            continue
    assert len(words) > 300
    said = subprocess.run(["sh", "-c", _SET, "sh", *words], capture_output=True, check=True).stdout.decode()
    answers = [tuple(answer.split("\0")[:-1]) for answer in said.split("\1")[:-1]]
    assert dict(zip(words, answers, strict=True)) == words


@each_row(
    ("text", "words"),
    [
        ("python a.py --tag ''", ("python", "a.py", "--tag", "")),
        ("python a.py --sep ';' \\| \"&&\"", ("python", "a.py", "--sep", ";", "|", "&&")),
        ("python a.py \\\n  --note '#1; a && b' # why", ("python", "a.py", "--note", "#1; a && b")),
        ("\n  python a.py\n\n", ("python", "a.py")),
        ("a 'x $HOME `y`' \"\\$HOME \\a\"", ("a", "x $HOME `y`", "$HOME \\a")),
        ('--run=$(ATHANOR_JOB) "$(VC_TASK_INDEX)"', ("--run=$(ATHANOR_JOB)", "$(VC_TASK_INDEX)")),
        ("a *.txt [1,2] {lr} 1$ HEAD~1 x#y", ("a", "*.txt", "[1,2]", "{lr}", "1$", "HEAD~1", "x#y")),
    ],
)
def test_quotes_comments_and_continued_lines(text, words):
    assert shell_words("command", text) == words


@each_row(
    ("text", "said"),
    [
        ("cd /app && python a.py", "&& needs a shell"),
        ("python a.py>log", "> needs a shell"),
        ("python a.py; b", "; needs a shell"),
        ("python a.py &", "& needs a shell"),
        ("a (b)", "( needs a shell"),
        ("a $HOME", "$HOME needs a shell"),
        ('a "x${HOME}"', "${ needs a shell"),
        ("a $(pwd)", "$( needs a shell"),
        ("a `pwd`", "` needs a shell"),
        ('a "`pwd`"', "` needs a shell"),
        ("a $$", "$$ needs a shell"),
        ("a $'b'", "$' needs a shell"),
        ("a ~/data", "~ needs a shell"),
        ("python a.py\npython b.py", "a second line needs a shell. Fix: end the first line with \\"),
        ("python 'a.py", "' is not closed"),
        ('python "a.py', '" is not closed'),
        ("python a.py\\", "it ends with \\"),
        (" \n ", "is empty"),
        ("# python a.py", "is empty"),
    ],
)
def test_what_needs_a_shell_is_refused(text, said):
    with pytest.raises(RefusalError) as refusal:
        shell_words("--prepare", text)
    assert said in str(refusal.value)
    assert str(refusal.value).startswith("--prepare")
