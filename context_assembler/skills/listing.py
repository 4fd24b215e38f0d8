"""Asks every provider for its skills."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from context_assembler.ports import SkillProvider
from context_assembler.skills.problems import SkillProblem
from context_assembler.sync import is_being_cancelled
from context_assembler.values.foreign_errors import tell_problem
from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_array
from context_assembler.values.parts import Json
from context_assembler.values.prompt import Skill
from context_assembler.values.report import ReportEntry
from context_assembler.values.texts.section_text import one_line

_TEXTS: Final = ("name", "description", "path", "instructions")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSkills:
    """The skills of all providers, in their order; a row for each that is broken; what went wrong.

    `has_failed` says of a single provider that it could not be asked.
    """

    skills: tuple[Skill, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    has_failed: bool = False


class LastLists:
    """Keeps what each of some providers listed last, for the calls in which it fails.

    Skills that go when their provider fails once, and come back, would change the prompt both times.
    """

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        self._now = now
        self._kept: dict[int, tuple[ListedSkills, datetime]] = {}

    def or_last(self, listed: Iterable[ListedSkills]) -> list[ListedSkills]:
        """Return of each provider what it listed, or else what it listed last; always in one order."""
        return [self._or_last(place, one) for place, one in enumerate(listed)]

    def _or_last(self, place: int, listed: ListedSkills) -> ListedSkills:
        if not listed.has_failed:
            self._kept[place] = (listed, self._now())
        elif place in self._kept:
            last, at = self._kept[place]
            of_when = (
                f"What they were last, at {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, still holds."
            )
            warnings = (*(f"{lost} {of_when}" for lost in listed.warnings), *last.warnings)
            return replace(last, warnings=warnings, has_failed=True)
        return listed


async def list_skills(
    providers: Iterable[SkillProvider],
    *,
    timeout_seconds: float = 30.0,
    last: LastLists | None = None,
) -> ListedSkills:
    """Ask every provider; one that fails is named in a warning, as is every broken skill.

    Of each provider the skills come sorted, whatever order it found them in.

    Args:
        timeout_seconds: How long one provider may take.
        last: What these very providers listed before.
    """
    asked = (_ask(provider, timeout_seconds=timeout_seconds) for provider in providers)
    listed = await asyncio.gather(*asked)
    if last is not None:
        listed = last.or_last(listed)
    return ListedSkills(
        skills=tuple(skill for one in listed for skill in one.skills),
        entries=tuple(entry for one in listed for entry in one.entries),
        warnings=tuple(warning for one in listed for warning in one.warnings),
    )


async def _ask(provider: SkillProvider, *, timeout_seconds: float) -> ListedSkills:
    kind = type(provider).__name__
    limit = asyncio.timeout(timeout_seconds)
    try:
        async with limit:
            given: list[Json] = list(await provider.list_skills())
        problems = [_problem_of(one, kind) for one in getattr(provider, "problems", ())]
        notes = [f"{one}." for one in getattr(provider, "notes", ())]
    except (Exception, asyncio.CancelledError) as error:  # foreign code: the rest goes on
        if is_being_cancelled():
            raise
        happened = (
            f"did not come within {timeout_seconds:g} s"
            if limit.expired()
            else f"failed: {tell_problem(error)}"
        )
        lost = f"Skills of {kind} {happened.rstrip('.')}."
        return ListedSkills(warnings=(lost,), has_failed=True)
    sound: list[Skill] = []
    for skill in given:
        if (reason := _fault_of(skill)) is None:
            sound.append(_in_one_line(skill))
        else:
            problems.append(SkillProblem(path=kind, reason=reason))
    return ListedSkills(
        skills=tuple(sorted(sound, key=_sort_key)),
        entries=tuple(
            ReportEntry(
                kind="skill", id=one.path, decision="dropped", reason=one.reason, rule=one.rule
            )
            for one in problems
        ),
        warnings=(*(f"Skill left out: {problem}." for problem in problems), *notes),
    )


def _problem_of(given: object, kind: str) -> SkillProblem:
    if isinstance(given, SkillProblem):
        return given
    return SkillProblem(path=kind, reason=one_line(str(given)))


def _fault_of(skill: Json) -> str | None:
    """Return why the skill cannot be told of; `None` where it can."""
    if not isinstance(skill, Skill):
        return f"{shown(skill)} is no Skill"
    if not _are(str, [getattr(skill, name) for name in _TEXTS]):
        return f"the skill {shown(skill.name)} has something other than text in its fields"
    if not is_array(skill.tools) or not is_array(skill.allowed_tools):
        return f"the tools of the skill {shown(skill.name)} are no list"
    if not _are(str, skill.allowed_tools):
        return f"the allowed tools of the skill {shown(skill.name)} are no names"
    if not _are(int, [skill.priority]):
        return f"the priority of the skill {shown(skill.name)} is no whole number"
    if not one_line(skill.name) or not one_line(skill.description):
        return f"the skill {shown(skill.name)} lacks a name or a description"
    return None


def _are(kind: type, values: Iterable[object]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _in_one_line(skill: Skill) -> Skill:
    """Return the skill itself, unless what the prompt lists of it has line breaks or the like."""
    name, description, path = map(one_line, (skill.name, skill.description, skill.path))
    if (name, description, path) == (skill.name, skill.description, skill.path):
        return skill
    return replace(skill, name=name, description=description, path=path)


def _sort_key(skill: Skill) -> tuple[str, ...]:
    return skill.name, skill.path, skill.description, skill.instructions
