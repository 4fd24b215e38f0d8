"""Where skills come from: one file per member, one row per member."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_assembler.errors import ConfigurationError
from context_assembler.ports import SkillProvider
from context_assembler.skills.folder import FolderSkills
from context_assembler.skills.prompt_text import (
    ChosenSkills,
    SkillsText,
    choose_skills,
    describe_skills,
)
from context_assembler.values.json_shapes import is_array
from context_assembler.values.prompt import Skill

__all__ = [
    "SKILL_PROVIDERS",
    "ChosenSkills",
    "SkillsText",
    "choose_skills",
    "describe_skills",
    "list_skills",
    "open_skill_providers",
]

SKILL_PROVIDERS: Final[Mapping[str, Callable[..., SkillProvider]]] = {"folder": FolderSkills}


def open_skill_providers(given: Any) -> list[SkillProvider]:
    """Open the short forms of skills: a folder, a provider, or a list of these.

    Raises:
        ConfigurationError: Something is neither.
    """
    if given is None:
        return []
    if is_array(given):
        return [provider for entry in given for provider in open_skill_providers(entry)]
    if isinstance(given, str | Path):
        return [SKILL_PROVIDERS["folder"](given)]
    if callable(getattr(given, "list_skills", None)):
        provider: SkillProvider = given
        return [provider]
    raise ConfigurationError(
        f"A {type(given).__name__} is no source of skills: {str(given)[:80]!r}.",
        remedy="Pass a folder, an object with list_skills(), or a list of these.",
    )


class ListedSkills(NamedTuple):
    """The skills of all providers, in their order, and what is wrong with others."""

    skills: tuple[Skill, ...]
    warnings: tuple[str, ...]


async def list_skills(providers: Iterable[SkillProvider]) -> ListedSkills:
    """Ask every provider; one that fails is named in a warning, as is every broken skill."""
    listed = await asyncio.gather(*map(_ask, providers))
    return ListedSkills(
        skills=tuple(skill for one in listed for skill in one.skills),
        warnings=tuple(warning for one in listed for warning in one.warnings),
    )


async def _ask(provider: SkillProvider) -> ListedSkills:
    try:
        skills = tuple(await provider.list_skills())
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, the rest goes on
        kind = type(provider).__name__
        return ListedSkills((), (f"Skills of {kind} failed: {type(error).__name__}: {error}.",))
    problems: Iterable[str] = getattr(provider, "problems", ())
    notes: Iterable[str] = getattr(provider, "notes", ())
    return ListedSkills(
        skills,
        (*(f"Skill left out: {text}." for text in problems), *(f"{text}." for text in notes)),
    )
