"""Which skills the model is told of, and which are active."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from context_assembler.errors import nearest
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSkills:
    """The skills of one request, sorted by name; the active ones' names; what was left out.

    `active` has those that were asked for by name and have something to add: instructions or tools.
    """

    skills: tuple[Skill, ...] = ()
    active: tuple[str, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()


def choose_skills(
    skills: Iterable[Skill],
    *,
    skip_reason: str | None = None,
    patterns: Sequence[str] | None = None,
    active: Iterable[str] = (),
    activates_named: bool = False,
) -> ChosenSkills:
    """Return the skills to tell the model of.

    Where two share a name, the higher priority wins; of equal ones the first given.

    Args:
        skip_reason: Why all of them are left out; `None` where they are not.
        patterns: Globs over names; `None` keeps all.
        active: Names that are asked for in full.
        activates_named: Whether a pattern that is a skill's whole name asks for it in full.
    """
    known, entries = _by_name(skills)
    reason = skip_reason or "skill_filter does not name it"
    is_wanted = {
        name: skip_reason is None and (patterns is None or _matches(name, patterns))
        for name in known
    }
    entries += [
        _dropped(skill, reason, "filter") for name, skill in known.items() if not is_wanted[name]
    ]
    chosen = [skill for name, skill in known.items() if is_wanted[name]]
    asked = tuple(dict.fromkeys(active))
    named = {*asked, *((patterns or ()) if activates_named else ())}
    warnings = [
        *_warn_of_unused(patterns or (), known=known),
        *(() if skip_reason else _warn_of_inactive(asked, known=known, chosen=chosen)),
    ]
    return ChosenSkills(
        skills=tuple(chosen),
        active=tuple(one.name for one in chosen if one.name in named and _adds_something(one)),
        entries=tuple(entries),
        warnings=tuple(warnings),
    )


def _by_name(skills: Iterable[Skill]) -> tuple[dict[str, Skill], list[ReportEntry]]:
    """Return one skill for each name, in order of names, and a row for each that gave way."""
    by_name: dict[str, Skill] = {}
    entries: list[ReportEntry] = []
    for skill in sorted(skills, key=lambda skill: -skill.priority):
        first = by_name.setdefault(skill.name, skill)
        if first is not skill:
            entries.append(_dropped(skill, f"{first.path} has that name already", "duplicate"))
    return {name: by_name[name] for name in sorted(by_name)}, entries


def _dropped(skill: Skill, reason: str, rule: str) -> ReportEntry:
    return ReportEntry(kind="skill", id=skill.name, decision="dropped", reason=reason, rule=rule)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _adds_something(skill: Skill) -> bool:
    return bool(skill.instructions.strip() or skill.tools)


def _warn_of_unused(patterns: Iterable[str], *, known: Collection[str]) -> list[str]:
    return [
        f"skill_filter names {pattern!r}, which no skill matches.{_hint(pattern, known)}"
        for pattern in patterns
        if not any(fnmatchcase(name, pattern) for name in known)
    ]


def _warn_of_inactive(
    asked: Iterable[str], *, known: Collection[str], chosen: Sequence[Skill]
) -> list[str]:
    """Say of each name that was asked for why it is not active."""
    by_name = {skill.name: skill for skill in chosen}
    warnings: list[str] = []
    for name in asked:
        if name not in known:
            reason = f"which no skill is called.{_hint(name, known)}"
        elif name not in by_name:
            reason = "which skill_filter leaves out."
        elif not _adds_something(by_name[name]):
            reason = "which has neither instructions nor tools."
        else:
            continue
        warnings.append(f"active_skills names {name!r}, {reason}")
    return warnings


def _hint(name: str, known: Collection[str]) -> str:
    return "".join(f" Did you mean {near!r}?" for near in nearest(name, known, count=1))
