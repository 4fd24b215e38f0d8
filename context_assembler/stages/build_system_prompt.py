"""`SystemPromptBuilder`: sections by priority → one prompt."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.values.parts import Origin
from context_assembler.values.prompt import (
    SECTION_SEPARATOR,
    BootstrapFile,
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
# Whose text may tell the model what to do. The developer's own instruction files are the developer's.
_WITH_AUTHORITY: Final[frozenset[Origin]] = frozenset({"developer", "assembler"})


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
        sections: The application's own sections, in every prompt. Those whose text is not the
            developer's own (memory, tools, files, the user) go behind the history, where it is data.

    Raises:
        UnknownOptionError: `priorities` or `required` names no standard section.
        ConfigurationError: A section that is not the developer's own is required in the prompt.
    """

    def __init__(
        self,
        *,
        priorities: Mapping[str, int] | None = None,
        required: Iterable[str] = ("agent",),
        sections: Iterable[PromptSection] = (),
    ) -> None:
        self._required = frozenset((*required, "session"))
        for name in (*(priorities or ()), *self._required):
            if name not in PRIORITIES:
                raise UnknownOptionError(name, kind="prompt section", known=PRIORITIES)
        self._priorities = {**PRIORITIES, **(priorities or {})}
        self._sections = tuple(sections)
        _refuse_required_without_authority(self._sections)

    def build(
        self,
        files: Iterable[BootstrapFile] = (),
        *,
        session_system: Iterable[str] = (),
        skills_text: str = "",
        tools_summary: str = "",
        additional: str | None = None,
        datetime_text: str = "",
    ) -> BuiltPrompt:
        """Return one prompt, highest priority first; equal priorities keep the order given here.

        Args:
            files: Instruction files; those without text have no section, and the report has their row.
            session_system: Texts of the system messages that the session begins with.
            additional: The call's own addition. In the prompt it would change the prefix from call
                to call, so it goes behind the history.
            datetime_text: A date that stays the same all through the session; clocks belong behind
                the history.
        """
        standard = [
            *self._of_files(files),
            self._standard("session", "\n\n".join(session_system)),
            self._standard("skills", skills_text),
            self._standard("tools", tools_summary),
            replace(self._standard("additional", additional or ""), placement="note"),
            self._standard("datetime", datetime_text),
        ]
        given = [*standard, *self._sections]
        shown = [replace(one, content=one.content.strip()) for one in given if one.content.strip()]
        ordered = sorted(shown, key=lambda section: -section.priority)
        system = [section for section in ordered if _is_in_system(section)]
        notes = [section for section in ordered if not _is_in_system(section)]
        empty = [section for section in self._sections if not section.content.strip()]
        return BuiltPrompt(
            system=join_sections(system),
            notes=tuple(replace(section, placement="note") for section in notes),
            entries=(
                *(_row(section, "kept") for section in system),
                *map(_note_row, notes),
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


def _is_in_system(section: PromptSection) -> bool:
    return section.placement == "system" and section.origin in _WITH_AUTHORITY


def _refuse_required_without_authority(sections: Iterable[PromptSection]) -> None:
    for section in sections:
        if section.is_required and section.placement == "system" and not _is_in_system(section):
            raise ConfigurationError(
                f"The section {section.name!r} comes from {section.origin!r} and is required in the "
                "system prompt, where only the developer's own text has a place.",
                remedy="Give it placement='note', or is_required=False to have it placed so.",
            )


def join_sections(sections: Iterable[PromptSection]) -> SystemPrompt:
    """Return the prompt of these sections, in this order."""
    kept = tuple(sections)
    return SystemPrompt(text=SECTION_SEPARATOR.join(one.content for one in kept), sections=kept)


def _note_row(section: PromptSection) -> ReportEntry:
    placed = "placed behind the history"
    if section.placement == "note":
        return _row(section, "kept", placed, "note")
    return _row(
        section, "kept", f"{placed}: what comes from {section.origin!r} has no authority", "origin"
    )


def _row(
    section: PromptSection, decision: Decision, reason: str = "", rule: str = ""
) -> ReportEntry:
    return ReportEntry(kind="section", id=section.name, decision=decision, reason=reason, rule=rule)


def summarize_tools(tools: Iterable[ToolSpec]) -> str:
    """Return one line per tool: its name and the first line of its description."""
    lines = [f"- {tool.name}: {tool.description.strip().partition(chr(10))[0]}" for tool in tools]
    return "\n".join(["Tools:", "", *(line.rstrip(": ") for line in lines)]) if lines else ""
