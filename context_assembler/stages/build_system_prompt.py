"""`SystemPromptBuilder`: sections by priority → one prompt."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from context_assembler.errors import UnknownOptionError
from context_assembler.values.prompt import (
    SECTION_SEPARATOR,
    BootstrapFile,
    Placement,
    PromptSection,
    SystemPrompt,
)
from context_assembler.values.report import Decision, ReportEntry
from context_assembler.values.tools import ToolSpec

PRIORITIES: Final[Mapping[str, int]] = {
    "agent": 1000,
    "session": 950,  # the system messages that an imported session begins with
    "soul": 900,
    "context": 800,
    "skills": 500,
    "tools": 400,
    "additional": 300,
    "datetime": 100,
}


class BuiltPrompt(NamedTuple):
    """The system prompt, the sections to be placed behind the history, and a row for each."""

    system: SystemPrompt
    notes: tuple[PromptSection, ...]
    entries: tuple[ReportEntry, ...]


class SystemPromptBuilder:
    """Puts the system prompt together.

    Args:
        priorities: Overrides of `PRIORITIES`, by section.
        required: Standard sections that are never shortened or dropped.
        sections: The application's own sections, in every prompt.
        separator: What stands between two sections.

    Raises:
        UnknownOptionError: `priorities` or `required` names no standard section.
    """

    def __init__(
        self,
        *,
        priorities: Mapping[str, int] | None = None,
        required: Iterable[str] = ("agent",),
        sections: Iterable[PromptSection] = (),
        separator: str = SECTION_SEPARATOR,
    ) -> None:
        self._required = frozenset((*required, "session"))
        for name in (*(priorities or ()), *self._required):
            if name not in PRIORITIES:
                raise UnknownOptionError(name, kind="prompt section", known=PRIORITIES)
        self._priorities = {**PRIORITIES, **(priorities or {})}
        self._sections = tuple(sections)
        self._separator = separator

    def build(
        self,
        files: Iterable[BootstrapFile] = (),
        *,
        session_system: Iterable[str] = (),
        skills_text: str = "",
        tools_summary: str = "",
        additional: str | None = None,
        additional_placement: Placement = "note",
        datetime_text: str = "",
        sections: Iterable[PromptSection] = (),
    ) -> BuiltPrompt:
        """Return one prompt, highest priority first; equal priorities keep the order given here.

        Args:
            files: Instruction files; those without text have no section, and the report has their row.
            session_system: Texts of the system messages that the session begins with.
            additional: The call's own addition. Placed in the prompt it would change the prefix
                from call to call, so it goes behind the history unless the caller says otherwise.
            datetime_text: A date no finer than the day; finer clocks belong behind the history.
        """
        standard = [
            *self._of_files(files),
            self._standard("session", "\n\n".join(session_system)),
            self._standard("skills", skills_text),
            self._standard("tools", tools_summary),
            replace(self._standard("additional", additional or ""), placement=additional_placement),
            self._standard("datetime", datetime_text),
        ]
        custom = (*self._sections, *sections)
        given = [*(one for one in standard if one.content.strip()), *custom]
        shown = [replace(one, content=one.content.strip()) for one in given if one.content.strip()]
        ordered = sorted(shown, key=lambda section: -section.priority)
        system = [section for section in ordered if section.placement == "system"]
        notes = [section for section in ordered if section.placement == "note"]
        empty = [section for section in custom if not section.content.strip()]
        return BuiltPrompt(
            system=join_sections(system, separator=self._separator),
            notes=tuple(notes),
            entries=(
                *(_row(section, "kept") for section in system),
                *(_row(one, "kept", "placed behind the history", "note") for one in notes),
                *(_row(section, "dropped", "it is empty", "empty") for section in empty),
            ),
        )

    def _of_files(self, files: Iterable[BootstrapFile]) -> list[PromptSection]:
        sections: list[PromptSection] = []
        for file in files:
            if file.state != "ok":
                continue
            section = self._standard(file.section, file.text)
            if any(section.name == earlier.name for earlier in sections):
                section = replace(section, name=f"{file.section}:{file.path}")
            sections.append(section)
        return sections

    def _standard(self, name: str, content: str) -> PromptSection:
        return PromptSection(
            name=name,
            content=content,
            priority=self._priorities.get(name, 0),
            is_required=name in self._required,
        )


def join_sections(
    sections: Iterable[PromptSection], *, separator: str = SECTION_SEPARATOR
) -> SystemPrompt:
    """Return the prompt of these sections, in this order."""
    kept = tuple(sections)
    return SystemPrompt(text=separator.join(one.content for one in kept), sections=kept)


def _row(
    section: PromptSection, decision: Decision, reason: str = "", rule: str = ""
) -> ReportEntry:
    return ReportEntry(kind="section", id=section.name, decision=decision, reason=reason, rule=rule)


def summarize_tools(tools: Iterable[ToolSpec]) -> str:
    """Return one line per tool: its name and the first line of its description."""
    lines = [f"- {tool.name}: {tool.description.strip().partition(chr(10))[0]}" for tool in tools]
    return "\n".join(["Tools:", "", *(line.rstrip(": ") for line in lines)]) if lines else ""
