"""What is left of each skill where its section was cut afterwards, or is that of an earlier call."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from context_assembler.skills.held_text import HeldSkills, read_text
from context_assembler.skills.prompt_text import CountText, active_block, active_tag, list_head
from context_assembler.values.epochs import FROZEN
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOfSkills:
    """Rows as they hold for the cut text, and the names of the skills that are still active."""

    entries: tuple[ReportEntry, ...]
    active: tuple[str, ...]


def follow_section(
    entries: Iterable[ReportEntry],
    skills: Iterable[Skill],
    *,
    active: Collection[str],
    text: str,
    section: ReportEntry | None,
    count_text: CountText,
) -> LeftOfSkills:
    """Return what holds for skills whose section is not what `describe_skills` made.

    Args:
        entries: Rows of any kind; those of other pieces stay as they are.
        text: What is sent of the section; empty where nothing is.
        section: Its row; by default, it was cut.
    """
    if section is None or section.rule != FROZEN:
        return follow_cut(entries, skills, active=active, text=text, count_text=count_text)
    by_name = {skill.name: skill for skill in skills}
    held = read_text(text, by_name.values(), is_short=section.decision == "shortened")
    told = HeldSkills(skills=by_name, active=active, held=held, count_text=count_text)
    return LeftOfSkills(
        entries=told.rows(entries),
        active=tuple(name for name in active if by_name[name].tools or name in held.blocks),
    )


def follow_cut(
    entries: Iterable[ReportEntry],
    skills: Iterable[Skill],
    *,
    active: Collection[str],
    text: str,
    count_text: CountText,
) -> LeftOfSkills:
    """Return what holds for skills whose section is not what `describe_skills` made.

    Args:
        entries: Rows of any kind; those of other pieces stay as they are.
        text: What is left of the section; empty where it was dropped.
    """
    by_name = {skill.name: skill for skill in skills}
    lines = f"\n{text}\n"
    followed: list[ReportEntry] = []
    for entry in entries:
        skill = by_name.get(entry.id) if entry.kind == "skill" else None
        if skill is not None and entry.decision in ("kept", "shortened"):
            entry = _followed(  # noqa: PLW2901 - the row of the same skill
                entry, skill, lines, is_active=entry.id in active, count_text=count_text
            )
        followed.append(entry)
    return LeftOfSkills(
        entries=tuple(followed),
        active=tuple(
            name for name in active if by_name[name].tools or active_tag(by_name[name]) in text
        ),
    )


def _followed(
    entry: ReportEntry, skill: Skill, lines: str, *, is_active: bool, count_text: CountText
) -> ReportEntry:
    line = _line_in(lines, list_head(skill))
    block = active_block(skill) if is_active and skill.instructions.strip() else ""
    left = block if block in lines else _left_of(lines, active_tag(skill))
    tokens = count_text(line) + count_text(left)
    is_whole = left == block and (bool(line) or entry.rule == "active")
    if is_whole:
        return entry
    return replace(
        entry,
        decision="shortened" if tokens else "dropped",
        tokens_after=tokens,
        reason=f"{entry.reason}; its section does not hold all of it".removeprefix("; "),
        rule="section.cut",
    )


def _line_in(lines: str, head: str) -> str:
    start = lines.find(f"\n{head}")
    return "" if start < 0 else lines[start + 1 : lines.index("\n", start + 1)]


def _left_of(lines: str, tag: str) -> str:
    start = lines.find(f"\n{tag}\n")
    end = lines.find("\n<skill ", start + 1)
    return "" if start < 0 else lines[start + 1 : end if end >= 0 else None].strip()
