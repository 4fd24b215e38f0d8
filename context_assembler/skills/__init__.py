"""Where skills come from: one file per member, one row per member."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from context_assembler.errors import ConfigurationError
from context_assembler.errors.base import with_article
from context_assembler.on_demand import RowsOnDemand, names_on_demand
from context_assembler.ports import SkillProvider
from context_assembler.values.json_shapes import is_array

if TYPE_CHECKING:
    from context_assembler.skills.after_cut import LeftOfSkills, follow_cut, follow_section
    from context_assembler.skills.choosing import ChosenSkills, choose_skills
    from context_assembler.skills.folder import FolderSkills
    from context_assembler.skills.listing import ListedSkills, list_skills
    from context_assembler.skills.problems import SkillProblem
    from context_assembler.skills.prompt_text import SkillsText, describe_skills
    from context_assembler.skills.telling import SkillTeller, ToldSkills
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "after_cut": "LeftOfSkills follow_cut follow_section",
            "choosing": "ChosenSkills choose_skills",
            "folder": "FolderSkills",
            "listing": "ListedSkills list_skills",
            "problems": "SkillProblem",
            "prompt_text": "SkillsText describe_skills",
            "telling": "SkillTeller ToldSkills",
        },
    )

__all__ = [
    "SKILL_PROVIDERS",
    "ChosenSkills",
    "FolderSkills",
    "LeftOfSkills",
    "ListedSkills",
    "SkillProblem",
    "SkillTeller",
    "SkillsText",
    "ToldSkills",
    "choose_skills",
    "describe_skills",
    "follow_cut",
    "follow_section",
    "list_skills",
    "open_skill_providers",
]


def _load_folder() -> "type[FolderSkills]":
    from context_assembler.skills.folder import FolderSkills  # noqa: PLC0415 - not all have skills

    return FolderSkills


SKILL_PROVIDERS: Final[Mapping[str, Callable[..., SkillProvider]]] = RowsOnDemand(
    {"folder": _load_folder}
)


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
        f"{with_article(type(given).__name__, begins_sentence=True)} is no source of skills: {str(given)[:80]!r}.",
        remedy="Pass a folder, an object with list_skills(), or a list of these.",
    )
