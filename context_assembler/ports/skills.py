"""The socket of skills."""

from collections.abc import Sequence
from typing import Protocol

from context_assembler.values.prompt import Skill


class SkillProvider(Protocol):
    """Somewhere skills come from."""

    async def list_skills(self) -> Sequence[Skill]:
        """Return the skills, sorted by name."""
        ...
