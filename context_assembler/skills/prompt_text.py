"""What the prompt says of skills: names and descriptions, within a budget."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from context_assembler.errors import nearest
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry

_INTRODUCTION: Final = (
    "# Skills\n\nEach skill is a file of instructions for one kind of task. "
    "Read the file before you begin a task that its description fits.\n"
)
_ACTIVE: Final = "## Skill: {name}\n\n{instructions}"


class ChosenSkills(NamedTuple):
    """The skills of one request, sorted by name, and what was left out of them."""

    skills: tuple[Skill, ...]
    entries: tuple[ReportEntry, ...]
    warnings: tuple[str, ...]


class SkillsText(NamedTuple):
    """The section for the prompt, and a row for every skill."""

    text: str
    entries: tuple[ReportEntry, ...]


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
    skills: Sequence[Skill], *, max_chars: int = 8_000, active: Iterable[str] = ()
) -> SkillsText:
    """Return names, files and descriptions of the skills, at most `max_chars` long.

    Too long a list is shortened fairly: the longest descriptions give way first, down to a length
    that all may have. Where even the names do not fit, the last ones are left out, and counted.

    Args:
        active: Names whose full instructions follow the list; they do not count.
    """
    if not skills:
        return SkillsText("", ())
    heads = [f"- {skill.name} ({skill.path})" for skill in skills]
    rest = f"- … and {len(skills):,} more skills"
    room = max_chars - len(_INTRODUCTION) - len(rest) - 1
    shown = _how_many_fit([len(head) + 1 for head in heads], room)
    left = room - sum(len(head) + 1 for head in heads[:shown])
    cap = _fair_cap([len(skill.description) + 2 for skill in skills[:shown]], left)
    lines: list[str] = []
    entries: list[ReportEntry] = []
    for skill, head in zip(skills[:shown], heads, strict=False):
        words = _shorten(skill.description, cap - 2)
        lines.append(f"{head}: {words}" if words else head)
        entries.append(_row(skill, words))
    if shown < len(skills):
        lines.append(f"- … and {len(skills) - shown:,} more skills")
    entries += [_dropped(skill, "no room", "skill_budget") for skill in skills[shown:]]
    wanted = set(active)
    full = [
        _ACTIVE.format(name=skill.name, instructions=skill.instructions)
        for skill in skills
        if skill.name in wanted
    ]
    text = _INTRODUCTION + "\n" + "\n".join(lines)
    return SkillsText("\n\n".join([text, *full]), tuple(entries))


def _row(skill: Skill, words: str) -> ReportEntry:
    if words == skill.description:
        return ReportEntry(kind="skill", id=skill.name, decision="kept")
    reason = f"its description was cut from {len(skill.description):,} to {len(words):,} characters"
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


def _shorten(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    if max_chars < 2:
        return ""
    words = text[: max_chars - 1].rpartition(" ")[0] or text[: max_chars - 1]
    return words.rstrip(" ,;:.") + "…"
