"""What goes in front of the conversation: instruction files, sections, skills, templates, lint."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from context_assembler.prompt.cutting import cut_lines, cut_text, seal_text
    from context_assembler.prompt.files import BootstrapFile, BootstrapLoader
    from context_assembler.prompt.sections import (
        FROZEN,
        PRIORITIES,
        REWRITTEN,
        SEPARATOR,
        UNTIL_REWRITE,
        BuiltPrompt,
        SentPrompt,
        SystemPromptBuilder,
        fit_prompt,
        prompt_record,
        summarize_tools,
    )
    from context_assembler.prompt.skills import (
        FolderSkills,
        ListedSkills,
        ShownSkills,
        SkillLister,
        SkillProblem,
        follow_section,
        open_skill_providers,
        show_skills,
    )
    from context_assembler.prompt.templates import render_files
else:
    _NAMES: Final = {
        "cutting": "cut_lines cut_text seal_text",
        "files": "BootstrapFile BootstrapLoader",
        "sections": "FROZEN PRIORITIES REWRITTEN SEPARATOR UNTIL_REWRITE BuiltPrompt SentPrompt "
        "SystemPromptBuilder fit_prompt prompt_record summarize_tools",
        "skills": "FolderSkills ListedSkills ShownSkills SkillLister SkillProblem follow_section "
        "open_skill_providers show_skills",
        "templates": "render_files",
    }

    def __getattr__(name: str) -> Any:
        """Load a module when one of its names is first used."""
        for module, names in _NAMES.items():
            if name in names.split():
                value = getattr(import_module(f"{__name__}.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(name)


__all__ = [
    "FROZEN",
    "PRIORITIES",
    "REWRITTEN",
    "SEPARATOR",
    "UNTIL_REWRITE",
    "BootstrapFile",
    "BootstrapLoader",
    "BuiltPrompt",
    "FolderSkills",
    "ListedSkills",
    "SentPrompt",
    "ShownSkills",
    "SkillLister",
    "SkillProblem",
    "SystemPromptBuilder",
    "cut_lines",
    "cut_text",
    "fit_prompt",
    "follow_section",
    "open_skill_providers",
    "prompt_record",
    "render_files",
    "seal_text",
    "show_skills",
    "summarize_tools",
]
