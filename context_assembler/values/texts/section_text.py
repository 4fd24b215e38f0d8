"""Text of one section of a prompt: it ends where it ends, and is cut between lines."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.shortening import shorten_text

CountText: TypeAlias = Callable[[str], int]

_RULE: Final = "---"  # between blank lines it parts the sections of a prompt
_OTHER_RULE: Final = "***"  # which Markdown draws alike
_MARKS: Final = (_RULE, "```", "~~~")
_CODE_FENCE: Final = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<rest>.*)")
_HEAD_SHARE: Final = 0.7
_JOINERS: Final = "\u200c\u200d"  # parts of words and of emoji; the rest of their kind hides text


class SealedText(NamedTuple):
    """Text that cannot be taken for more than one section, and what was changed for it."""

    text: str
    changes: tuple[str, ...] = ()


def seal_text(text: str) -> SealedText:
    """Return the text so that nothing in it parts sections, and no code block reaches behind it.

    A rule that would read as the line between two sections is drawn in stars; inside a code block
    it gets a trailing space instead. Sealing twice is the same as once.
    """
    if not any(mark in text for mark in _MARKS):
        return SealedText(text)
    lines = text.split("\n")
    mark = ""
    changes: dict[str, None] = {}
    for at, line in enumerate(lines):
        mark = _mark_behind(line, mark)
        if _is_rule(lines, at):
            lines[at] = f"{line.rstrip()} " if mark else line.replace(_RULE, _OTHER_RULE)
            if lines[at] != line:
                changes["a line '---' was changed, since it parts the sections"] = None
    if mark:
        lines.append(mark)
        changes["a code block that it leaves open was closed"] = None
    return SealedText("\n".join(lines), tuple(changes)) if changes else SealedText(text)


def _mark_behind(line: str, mark: str) -> str:
    """Return the mark of the code block that is open behind the line; empty for none."""
    match = _CODE_FENCE.fullmatch(line)
    if match is None:
        return mark
    found, rest = match["mark"], match["rest"].strip()
    if not mark:
        is_inline = found[0] == "`" and "`" in rest
        return "" if is_inline else found
    closes = found[0] == mark[0] and len(found) >= len(mark) and not rest
    return "" if closes else mark


def _is_rule(lines: Sequence[str], at: int) -> bool:
    around = (*lines[max(at - 1, 0) : at], *lines[at + 1 : at + 2])
    return lines[at].strip() == _RULE and not any(line.strip() for line in around)


def cut_lines(text: str, *, max_tokens: int, count_text: CountText) -> str:
    """Return the text, or its first and last lines around a marker that counts the missing ones.

    Lines stay whole, unless not even one has room. Where nothing fits, nothing is left.
    """
    if count_text(text) <= max_tokens:
        return text
    lines = text.split("\n")

    def cut(head: int, tail: int) -> str:
        marker = f"[… {len(lines) - head - tail:,} of {len(lines):,} lines left out here …]"
        return seal_text("\n".join([*lines[:head], marker, *lines[len(lines) - tail :]])).text

    def fits(head: int, tail: int, tokens: int) -> bool:
        return count_text(cut(head, tail)) <= tokens

    head_tokens = int(max_tokens * _HEAD_SHARE)
    head = _most(len(lines) - 1, lambda number: fits(number, 0, head_tokens))
    tail = _most(len(lines) - 1 - head, lambda number: fits(head, number, max_tokens))
    whole = cut(head, tail) if head or tail else _cut_within(text, max_tokens, count_text)
    return whole if count_text(whole) <= max_tokens else ""


def _cut_within(text: str, max_tokens: int, count_text: CountText) -> str:
    return seal_text(shorten_text(text, max_tokens=max_tokens, count_text=count_text)).text


def _most(upper: int, is_right: Callable[[int], bool]) -> int:
    """Return the largest number up to `upper` for which it is right, as it is for smaller ones."""
    low, high = 0, upper
    while low < high:
        middle = (low + high + 1) // 2
        if is_right(middle):
            low = middle
        else:
            high = middle - 1
    return low


def one_line(text: str) -> str:
    """Return the text on one line, without control characters and without any that show nothing."""
    if not text.isprintable():
        text = "".join(map(_shown, clean_text(text)))
    return " ".join(text.split())


def _shown(character: str) -> str:
    if character.isspace():
        return " "
    is_hidden = unicodedata.category(character) in ("Cc", "Cf") and character not in _JOINERS
    return "" if is_hidden else character
