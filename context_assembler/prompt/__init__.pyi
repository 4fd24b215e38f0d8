from context_assembler.prompt.asking import AskedTexts, TextAsker
from context_assembler.prompt.files import BootstrapFile, BootstrapLoader
from context_assembler.prompt.lint import Lint, lint_files
from context_assembler.prompt.sections import (
    BuiltPrompt,
    SentPrompt,
    ShownSkills,
    SystemPromptBuilder,
    fit_prompt,
    prompt_record,
    summarize_tools,
)
from context_assembler.prompt.skills import (
    FolderSkills,
    ListedSkills,
    SkillLister,
    follow_section,
    show_skills,
)
from context_assembler.prompt.templates import render_files

__all__ = [
    "AskedTexts",
    "BootstrapFile",
    "BootstrapLoader",
    "BuiltPrompt",
    "FolderSkills",
    "Lint",
    "ListedSkills",
    "SentPrompt",
    "ShownSkills",
    "SkillLister",
    "SystemPromptBuilder",
    "TextAsker",
    "fit_prompt",
    "follow_section",
    "lint_files",
    "prompt_record",
    "render_files",
    "show_skills",
    "summarize_tools",
]
