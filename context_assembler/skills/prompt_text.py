"""What the prompt says of skills: names and descriptions, within a budget; active ones in full."""

from collections.abc import Callable, Collection, Sequence
from html import escape
from typing import Final, NamedTuple, TypeAlias

from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.fences import escape_tag
from context_assembler.values.texts.section_text import one_line, seal_text

_INTRODUCTION: Final = (
    "# Skills\n\nEach skill is a file of instructions for one kind of task. "
    "Read the file before you begin a task that its description fits.\n"
)
_TAG: Final = "skill"

CountText: TypeAlias = Callable[[str], int]


class SkillsText(NamedTuple):
    """The section for the prompt, and a row for every skill."""

    text: str = ""
    entries: tuple[ReportEntry, ...] = ()


def describe_skills(
    skills: Sequence[Skill],
    *,
    max_tokens: int,
    count_text: CountText,
    active: Collection[str] = (),
) -> SkillsText:
    """Return names, files and descriptions of the skills in at most `max_tokens`.

    Too long a list is shortened fairly: the longest descriptions give way first, down to a length
    that all may have. Where even the names do not fit, those of the lowest priority are left out,
    and counted.

    Args:
        skills: Sorted by name.
        active: Names whose full instructions follow the list; they do not count.
    """
    listed = _fitting_list(skills, max_tokens=max_tokens, count_text=count_text)
    blocks = {
        skill.name: active_block(skill)
        for skill in skills
        if skill.name in active and skill.instructions.strip()
    }
    entries = (
        skill_row(
            skill,
            listed.words.get(skill.name),
            is_active=skill.name in active,
            block_tokens=count_text(blocks.get(skill.name, "")),
            count_text=count_text,
        )
        for skill in skills
    )
    texts = [listed.text, *blocks.values()]
    return SkillsText("\n\n".join(text for text in texts if text), tuple(entries))


def list_head(skill: Skill) -> str:
    """Return how the skill's line in the list begins."""
    return f"- {skill.name} ({skill.path})"


def active_tag(skill: Skill) -> str:
    """Return the line that opens the instructions of an active skill."""
    given = {
        "name": skill.name,
        "file": skill.path,
        "allowed-tools": one_line(" ".join(skill.allowed_tools)),
    }
    told = "".join(f' {name}="{escape(text)}"' for name, text in given.items() if text)
    return f"<{_TAG}{told}>"


def active_block(skill: Skill) -> str:
    """Return an active skill's instructions between tags that nothing in them can close."""
    text = seal_text(clean_text(skill.instructions.strip())).text
    return f"{active_tag(skill)}\n{escape_tag(_TAG, text)}\n</{_TAG}>"


class _List(NamedTuple):
    """The list as text, and what it says of each skill that it names."""

    text: str
    words: dict[str, str]


def _fitting_list(skills: Sequence[Skill], *, max_tokens: int, count_text: CountText) -> _List:
    room_tokens = max_tokens if skills else 0
    while room_tokens > 0:
        listed = _list(skills, room_tokens=room_tokens, count_text=count_text)
        over_tokens = count_text(listed.text) - max_tokens
        if over_tokens <= 0:
            return listed
        room_tokens -= max(over_tokens, room_tokens // 16)
    return _List("", {})


def _list(skills: Sequence[Skill], *, room_tokens: int, count_text: CountText) -> _List:
    """Return a list that should fit; counts of its pieces need not add up to that of the whole."""
    ranked = sorted(skills, key=lambda skill: -skill.priority)
    sizes = [count_text(f"{list_head(skill)}: \n") for skill in ranked]
    left_tokens = room_tokens - count_text(_INTRODUCTION) - count_text(_rest(len(skills)))
    number = _how_many_fit(sizes, left_tokens)
    left_tokens -= sum(sizes[:number])
    named = {skill.name for skill in ranked[:number]}
    shown = [skill for skill in skills if skill.name in named]
    cap = _fair_cap([count_text(skill.description) for skill in shown], left_tokens)
    words = {
        skill.name: _shorten(skill.description, max_tokens=cap, count_text=count_text)
        for skill in shown
    }
    lines = [list_line(skill, words[skill.name]) for skill in shown]
    lines += [_rest(len(skills) - number)] if number < len(skills) else []
    return _List("\n".join([_INTRODUCTION, *lines]), words)


def list_line(skill: Skill, words: str) -> str:
    """Return the skill's line in the list, with these words of its description."""
    return f"{list_head(skill)}: {words}" if words else list_head(skill)


def _rest(count: int) -> str:
    return f"- … and {count:,} more skills"


def skill_row(
    skill: Skill,
    words: str | None,
    *,
    is_active: bool,
    block_tokens: int,
    count_text: CountText,
) -> ReportEntry:
    """Return the row of a skill that the prompt tells of.

    Args:
        words: What the list has of its description; `None`: the skill is not listed.
        block_tokens: The size of its instructions.
    """
    whole_tokens = count_text(list_line(skill, skill.description)) + block_tokens
    line_tokens = 0 if words is None else count_text(list_line(skill, words))
    told = [_active_reason(skill)] if is_active else []
    is_whole = words == skill.description or (words is None and is_active)
    if words is None:
        told += [] if is_active else ["no room in the list"]
    elif is_whole:
        told += [] if is_active else ["listed"]
    else:
        cut = (
            f"its description was cut from {len(skill.description):,} to {len(words):,} characters"
        )
        told.insert(0, cut)
    return ReportEntry(
        kind="skill",
        id=skill.name,
        decision="kept" if is_whole else "dropped" if words is None else "shortened",
        tokens_before=whole_tokens,
        tokens_after=line_tokens + block_tokens,
        reason="; ".join(told),
        rule=("active" if is_active else "listed") if is_whole else "skill_budget",
    )


def _active_reason(skill: Skill) -> str:
    tools = "1 tool" if len(skill.tools) == 1 else f"{len(skill.tools):,} tools"
    brought = f", and it brings {tools}" if skill.tools else ""
    has_text = bool(skill.instructions.strip())
    return f"active: its instructions follow the list{brought}" if has_text else f"active{brought}"


def _how_many_fit(sizes: Sequence[int], room: int) -> int:
    for number, size in enumerate(sizes):
        room -= size
        if room < 0:
            return number
    return len(sizes)


def _fair_cap(sizes: Sequence[int], room: int) -> int:
    """Return the largest length that all may have: `sum(min(size, cap)) <= room`."""
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return max(0, room // left)
        room -= size
        left -= 1
    return max(sizes, default=0)


def _shorten(text: str, *, max_tokens: int, count_text: CountText) -> str:
    """Return the text, or as many of its first words as fit with an ellipsis."""
    tokens = count_text(text)
    if tokens <= max_tokens:
        return text
    chars = len(text) * max_tokens // tokens
    while chars > 0:
        cut = text[:chars]
        words = cut.rpartition(" ")[0] if not text[chars].isspace() else cut
        shorter = (words or cut).rstrip(" ,;:.") + "…"
        if count_text(shorter) <= max_tokens:
            return shorter
        chars -= max(1, chars // 16)
    return ""
