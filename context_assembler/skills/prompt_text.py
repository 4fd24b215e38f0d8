"""What the prompt says of skills: names and descriptions, within a budget."""

from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeAlias

from context_assembler.errors import nearest
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry

_INTRODUCTION: Final = (
    "# Skills\n\nEach skill is a file of instructions for one kind of task. "
    "Read the file before you begin a task that its description fits.\n"
)
_ACTIVE: Final = "## Skill: {name}\n\n{instructions}"


CountText: TypeAlias = Callable[[str], int]


class ChosenSkills(NamedTuple):
    """The skills of one request, sorted by name, and what was left out of them."""

    skills: tuple[Skill, ...]
    entries: tuple[ReportEntry, ...]
    warnings: tuple[str, ...]


class SkillsText(NamedTuple):
    """The section for the prompt, a row for every skill, and whose instructions it holds."""

    text: str
    entries: tuple[ReportEntry, ...]
    active: tuple[str, ...] = ()


def choose_skills(
    skills: Iterable[Skill], *, skip: bool = False, patterns: Sequence[str] | None = None
) -> ChosenSkills:
    """Return the skills to tell the model of; where two share a name, the first given wins.

    Args:
        skip: Leave all of them out.
        patterns: Globs over names; `None` keeps all.
    """
    by_name: dict[str, Skill] = {}
    entries: list[ReportEntry] = []
    for skill in skills:
        first = by_name.setdefault(skill.name, skill)
        if first is not skill:
            entries.append(_dropped(skill, f"{first.path} has that name already", "duplicate"))
    known = [by_name[name] for name in sorted(by_name)]
    reason = "skip_skills is on" if skip else "skill_filter does not name it"
    kept = [skill for skill in known if not skip and _matches(skill.name, patterns)]
    names = [skill.name for skill in known]
    entries += [_dropped(skill, reason, "filter") for skill in known if skill not in kept]
    unused = [p for p in patterns or () if not any(fnmatchcase(name, p) for name in names)]
    warnings = [
        f"skill_filter names {pattern!r}, which no skill matches."
        + "".join(f" Did you mean {near!r}?" for near in nearest(pattern, names, count=1))
        for pattern in unused
    ]
    return ChosenSkills(tuple(kept), tuple(entries), tuple(warnings))


def _dropped(skill: Skill, reason: str, rule: str) -> ReportEntry:
    return ReportEntry(kind="skill", id=skill.name, decision="dropped", reason=reason, rule=rule)


def _matches(name: str, patterns: Sequence[str] | None) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


def describe_skills(
    skills: Sequence[Skill],
    *,
    max_tokens: int,
    count_text: CountText,
    active: Iterable[str] = (),
) -> SkillsText:
    """Return names, files and descriptions of the skills in at most `max_tokens`.

    Too long a list is shortened fairly: the longest descriptions give way first, down to a length
    that all may have. Where even the names do not fit, the last ones are left out, and counted.

    Args:
        active: Names whose full instructions follow the list; they do not count.
    """
    wanted = set(active)
    full = [skill for skill in skills if skill.name in wanted and skill.instructions]
    names = tuple(skill.name for skill in full)
    listed = _fitting_list(skills, max_tokens=max_tokens, count_text=count_text)
    texts = [_ACTIVE.format(name=one.name, instructions=one.instructions) for one in full]
    return SkillsText(
        "\n\n".join([listed.text, *texts] if listed.text else texts),
        tuple(_row(skill, words, active=names) for skill, words in _with_words(skills, listed)),
        names,
    )


class _List(NamedTuple):
    """The list as text, and what it says of each skill; those at the end may be missing."""

    text: str
    descriptions: tuple[str, ...]


def _with_words(skills: Sequence[Skill], listed: _List) -> Iterable[tuple[Skill, str | None]]:
    missing = len(skills) - len(listed.descriptions)
    return zip(skills, (*listed.descriptions, *[None] * missing), strict=True)


def _fitting_list(skills: Sequence[Skill], *, max_tokens: int, count_text: CountText) -> _List:
    room_tokens = max_tokens if skills else 0
    while room_tokens > 0:
        listed = _list(skills, room_tokens=room_tokens, count_text=count_text)
        over_tokens = count_text(listed.text) - max_tokens
        if over_tokens <= 0:
            return listed
        room_tokens -= max(over_tokens, room_tokens // 16)
    return _List("", ())


def _list(skills: Sequence[Skill], *, room_tokens: int, count_text: CountText) -> _List:
    """Return a list that should fit; counts of its pieces need not add up to that of the whole."""
    heads = [f"- {skill.name} ({skill.path})" for skill in skills]
    sizes = [count_text(f"{head}: \n") for head in heads]
    left_tokens = room_tokens - count_text(_INTRODUCTION) - count_text(_rest(len(skills)))
    shown = _how_many_fit(sizes, left_tokens)
    left_tokens -= sum(sizes[:shown])
    wanted = [count_text(skill.description) for skill in skills[:shown]]
    cap = _fair_cap(wanted, left_tokens)
    words = tuple(
        _shorten(skill.description, max_tokens=cap, count_text=count_text)
        for skill in skills[:shown]
    )
    lines = [f"{head}: {said}" if said else head for head, said in zip(heads, words, strict=False)]
    lines += [_rest(len(skills) - shown)] if shown < len(skills) else []
    return _List("\n".join([_INTRODUCTION, *lines]), words)


def _rest(count: int) -> str:
    return f"- … and {count:,} more skills"


def _row(skill: Skill, words: str | None, *, active: Collection[str]) -> ReportEntry:
    follow = "active: its instructions follow the list"
    is_active = skill.name in active
    if words is None and not is_active:
        return _dropped(skill, "no room in the list", "skill_budget")
    if words is None or words == skill.description:
        reason, rule = (follow, "active") if is_active else ("listed", "listed")
        return ReportEntry(kind="skill", id=skill.name, decision="kept", reason=reason, rule=rule)
    cut = f"its description was cut from {len(skill.description):,} to {len(words):,} characters"
    reason = f"{cut}; {follow}" if is_active else cut
    return ReportEntry(
        kind="skill", id=skill.name, decision="shortened", reason=reason, rule="skill_budget"
    )


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
