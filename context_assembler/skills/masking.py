"""Masks secrets in what is told of skills."""

from collections.abc import Iterable
from dataclasses import replace

from context_assembler.values.prompt import Skill
from context_assembler.values.texts.secret_masking import mask_secrets


def mask_skills(skills: Iterable[Skill]) -> tuple[tuple[Skill, ...], tuple[str, ...]]:
    """Return the skills without secrets, and a warning for each in which there were any.

    Raises:
        MissingExtraError: detect-secrets is not installed.
    """
    masked: list[Skill] = []
    warnings: list[str] = []
    for skill in skills:
        description, instructions = map(mask_secrets, (skill.description, skill.instructions))
        found = [text.notice for text in (description, instructions) if text.kinds]
        if found:
            skill = replace(  # noqa: PLW2901 - the same skill
                skill, description=description.text, instructions=instructions.text
            )
            warnings.append(f"{skill.path}: {'; '.join(found)}")
        masked.append(skill)
    return tuple(masked), tuple(warnings)
