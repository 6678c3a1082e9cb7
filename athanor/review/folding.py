"""Shortening of a report to the size of a comment: the least important parts first, with a note of the omission."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

GITHUB_LIMIT = 65_536
"""Characters of a comment: the API of GitHub rejects a longer `body`."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A piece of Markdown that is complete in itself: nothing in it stays open."""

    text: str
    short: str = ""
    """The same in fewer words; "" if there is no shorter form."""
    rank: int
    """The lower, the sooner it gets room; blocks of one rank in their order."""


def fitted(blocks: Sequence[Block], limit: int) -> str:
    """Return the blocks as one text of at most `limit` characters, in their order.

    Where all do not fit, each block in the order of its rank gets as much room as is left, and a last line says how
    many are shortened or left out.
    """
    whole = _joined([block.text for block in blocks])
    if len(whole) <= limit:
        return whole
    chosen = [""] * len(blocks)
    left = limit - len(_notice(len(blocks), len(blocks), limit))
    for number in sorted(range(len(blocks)), key=lambda number: (blocks[number].rank, number)):
        block = blocks[number]
        chosen[number] = next((text for text in (block.text, block.short) if text and len(text) + 2 <= left), "")
        left -= len(chosen[number]) + 2 if chosen[number] else 0
    shortened = sum(bool(text) and text != block.text for text, block in zip(chosen, blocks, strict=True))
    omitted = sum(not text and bool(block.text) for text, block in zip(chosen, blocks, strict=True))
    return _joined([*chosen, _notice(shortened, omitted, limit)])[:limit]


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(text.strip("\n") for text in texts if text) + "\n"


def _notice(shortened: int, omitted: int, limit: int) -> str:
    return (
        f"**Not all of it is here:** the limit is {limit:,} characters; {shortened:,} sections are shortened and"
        f" {omitted:,} left out, the least important ones. The whole report: `athanor review --limit 0`.\n\n"
    )
