"""What goes in front of the conversation: instruction files, sections, skills, templates, lint."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from context_assembler.prompt.files import BootstrapFile, BootstrapLoader
from context_assembler.prompt.sections import (
    BuiltPrompt,
    SentPrompt,
    ShownSkills,
    SystemPromptBuilder,
    fit_prompt,
    prompt_record,
    summarize_tools,
)

if TYPE_CHECKING:
    from context_assembler.prompt.asking import AskedTexts, TextAsker, is_async
    from context_assembler.prompt.lint import Lint, lint_files
    from context_assembler.prompt.skills import (
        FolderSkills,
        ListedSkills,
        SkillLister,
        follow_section,
        show_skills,
    )
    from context_assembler.prompt.templates import render_files

__all__ = ["AskedTexts", "BootstrapFile", "BootstrapLoader", "BuiltPrompt", "FolderSkills", "Lint"]
__all__ += ["ListedSkills", "SentPrompt", "ShownSkills", "SkillLister", "SystemPromptBuilder"]
__all__ += ["TextAsker", "is_async"]
__all__ += ["fit_prompt", "follow_section", "lint_files", "prompt_record", "render_files"]
__all__ += ["show_skills", "summarize_tools"]

# Loaded on first use: most calls need none of them.
_HOMES: Final = {
    **dict.fromkeys(("AskedTexts", "TextAsker", "is_async"), "asking"),
    **dict.fromkeys(("Lint", "lint_files"), "lint"),
    "render_files": "templates",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'skills')}"), name)
