"""`SystemPromptBuilder`: sections by priority → one prompt."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from context_assembler.stages.build_system_prompt.missed_sections import tell_missed
from context_assembler.stages.build_system_prompt.section_budgets import (
    Candidate,
    CountText,
    cap_candidates,
)
from context_assembler.stages.build_system_prompt.section_rules import (
    by_section,
    check_texts,
    is_in_system,
    names_by_agent,
    refuse_sections,
    refuse_unknown,
)
from context_assembler.values.given import check_type, listed
from context_assembler.values.prompt import (
    SECTION_SEPARATOR,
    BootstrapFile,
    PromptSection,
    SystemPrompt,
)
from context_assembler.values.report import Decision, ReportEntry
from context_assembler.values.texts.section_text import one_line, seal_text
from context_assembler.values.tools import ToolSpec

__all__ = [
    "PRIORITIES",
    "BuiltPrompt",
    "SystemPromptBuilder",
    "join_sections",
    "summarize_tools",
]

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
_NAMES: Final = "names of sections, such as ['agent']"
# What the session and the call bring themselves is nobody's heritage.
_NEVER_INHERITED: Final = frozenset({"session", "additional"})


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
        inherits: By agent, the only sections that its prompt has; an agent that is not named has all.
            What the session and the call bring themselves (`session`, `additional`) always stays.
        max_tokens: By section, its longest text.

    Raises:
        UnknownOptionError: `priorities` or `required` names no standard section, `inherits` or
            `max_tokens` no section at all, or a section an unknown placement or origin.
        ConfigurationError: A section that is not the developer's own is required in the prompt, has
            no text for a name or content, or has the name of another.
    """

    def __init__(
        self,
        *,
        priorities: Mapping[str, int] | None = None,
        required: Iterable[str] = ("agent",),
        sections: Iterable[PromptSection] = (),
        inherits: Mapping[str, Iterable[str]] | None = None,
        max_tokens: Mapping[str, int] | None = None,
    ) -> None:
        self._required = frozenset((*listed("required", required, str, such_as=_NAMES), "session"))
        self._priorities = {**PRIORITIES, **by_section("priorities", priorities)}
        self._sections = listed("sections", sections, PromptSection, such_as="[PromptSection(…)]")
        self._inherits = names_by_agent(inherits)
        self._max_tokens = by_section("max_tokens", max_tokens)
        refuse_unknown((*self._priorities, *self._required), known=PRIORITIES)
        known = (*PRIORITIES, *(section.name for section in self._sections))
        named = (name for names in self._inherits.values() for name in sorted(names))
        refuse_unknown((*named, *self._max_tokens), known=known)
        refuse_sections(self._sections, standard=PRIORITIES)

    def sections_of(self, agent_id: str | None) -> frozenset[str] | None:
        """Return the names of the only sections that an agent's prompt has; `None`: it has all."""
        check_type("agent_id", agent_id, str, type(None), such_as="the agent's name")
        return self._inherits.get(agent_id or "")

    def build(
        self,
        files: Iterable[BootstrapFile] = (),
        *,
        session_system: Iterable[str] = (),
        skills_text: str = "",
        tools_summary: str = "",
        additional: str | None = None,
        datetime_text: str = "",
        agent_id: str | None = None,
        count_text: CountText | None = None,
    ) -> BuiltPrompt:
        """Return one prompt, highest priority first; equal priorities keep the order given here.

        Args:
            files: Instruction files; those without text have no section, and the report has their row.
            session_system: Texts of the system messages that the session begins with.
            additional: The call's own addition. In the prompt it would change the prefix from call
                to call, so it goes behind the history.
            datetime_text: A date that stays the same all through the session; clocks belong behind
                the history.
            agent_id: Whose prompt it is, for `inherits`.
            count_text: Counts tokens, for `max_tokens`; without it no section is shortened.
        """
        check_texts(skills_text, tools_summary, additional or "", datetime_text)
        session_system = listed("session_system", session_system, str, such_as="a list of texts")
        check_type("agent_id", agent_id, str, type(None), such_as="the agent's name")
        given = [
            *self._of_files(listed("files", files, BootstrapFile, such_as="what a loader loaded")),
            self._standard("session", "\n\n".join(session_system)),
            self._standard("skills", skills_text),
            self._standard("tools", tools_summary),
            self._standard("additional", additional or "", is_note=True),
            self._standard("datetime", datetime_text),
            *(Candidate(group=section.name, section=section) for section in self._sections),
        ]
        shown = [_stripped(one) for one in given if one.section.content.strip()]
        inherited, rows = self._inherited(shown, agent_id)
        if count_text is not None:
            inherited = cap_candidates(
                inherited, max_tokens=self._max_tokens, count_text=count_text
            )
        empty = [section for section in self._sections if not section.content.strip()]
        rows += [_row(section, "dropped", "it is empty", "empty") for section in empty]
        return _built(inherited, rows)

    def find_missed(
        self, files: Iterable[BootstrapFile], prompt: SystemPrompt, *, agent_id: str | None = None
    ) -> Iterator[str]:
        """Return a warning for each reason that the prompt lacks a required section of the files.

        Args:
            files: All that were looked for; none where nobody named a folder.
            prompt: What is sent.
            agent_id: Whose prompt it is.
        """
        files = listed("files", files, BootstrapFile, such_as="what a loader loaded")
        check_type("prompt", prompt, SystemPrompt, such_as="SystemPrompt(…)")
        allowed = self.sections_of(agent_id)
        return tell_missed(files, prompt, required=self._required, allowed=allowed)

    def _of_files(self, files: Iterable[BootstrapFile]) -> list[Candidate]:
        found: list[Candidate] = []
        for file in files:
            if file.state != "ok":
                continue
            candidate = self._standard(file.section, file.text)
            is_far = any(candidate.section.name == earlier.section.name for earlier in found)
            name = f"{file.section}:{file.path}" if is_far else file.section
            section = replace(candidate.section, name=name, path=file.path)
            found.append(replace(candidate, section=section))
        return found

    def _standard(self, name: str, content: str, *, is_note: bool = False) -> Candidate:
        section = PromptSection(
            name=name,
            content=content,
            priority=self._priorities.get(name, 0),
            placement="note" if is_note else "system",
            is_required=name in self._required,
        )
        return Candidate(group=name, section=section)

    def _inherited(
        self, candidates: Sequence[Candidate], agent_id: str | None
    ) -> tuple[list[Candidate], list[ReportEntry]]:
        """Return what the agent inherits, and a row for everything that it does not."""
        names = self.sections_of(agent_id)
        if names is None:
            return list(candidates), []
        allowed = names | _NEVER_INHERITED
        reason = f"the agent {agent_id!r} does not inherit it"
        rows = [
            _row(candidate.section, "dropped", reason, "inherits")
            for candidate in candidates
            if candidate.group not in allowed
        ]
        return [candidate for candidate in candidates if candidate.group in allowed], rows


def _built(candidates: Iterable[Candidate], rows: Iterable[ReportEntry]) -> BuiltPrompt:
    ordered = sorted(candidates, key=lambda candidate: -candidate.section.priority)
    system = [candidate for candidate in ordered if is_in_system(candidate.section)]
    notes = [candidate for candidate in ordered if not is_in_system(candidate.section)]
    behind = [candidate.section for candidate in notes if candidate.section.content]
    return BuiltPrompt(
        system=join_sections(one.section for one in system if one.section.content),
        notes=tuple(replace(section, placement="note") for section in behind),
        entries=(*map(_system_row, system), *map(_note_row, notes), *rows),
    )


def _stripped(candidate: Candidate) -> Candidate:
    """Return the section without space around it; in the prompt it also ends where it ends.

    The session's own prompt is what the application sent before: it stays as it is.
    """
    content = candidate.section.content
    is_own = candidate.group == "session"
    section = replace(candidate.section, content=content if is_own else content.strip())
    if not is_in_system(section):
        return replace(candidate, section=section)
    sealed = seal_text(section.content)
    section = replace(section, content=sealed.text)
    return replace(candidate, section=section, remarks=sealed.changes)


def join_sections(sections: Iterable[PromptSection]) -> SystemPrompt:
    """Return the prompt of these sections, in this order."""
    kept = tuple(sections)
    return SystemPrompt(text=SECTION_SEPARATOR.join(one.content for one in kept), sections=kept)


def _system_row(candidate: Candidate) -> ReportEntry:
    if candidate.row is not None:
        return candidate.row
    return _row(candidate.section, "kept", "; ".join(candidate.remarks))


def _note_row(candidate: Candidate) -> ReportEntry:
    section, placed = candidate.section, "placed behind the history"
    if section.placement == "system":
        placed = f"{placed}: what comes from {section.origin!r} has no authority"
    if candidate.row is not None and candidate.row.decision == "dropped":
        return candidate.row
    if candidate.row is not None:
        return replace(candidate.row, reason=f"{candidate.row.reason} It is {placed}.")
    reason = "; ".join([placed, *candidate.remarks])
    return _row(section, "kept", reason, "note" if section.placement == "note" else "origin")


def _row(
    section: PromptSection, decision: Decision, reason: str = "", rule: str = ""
) -> ReportEntry:
    return ReportEntry(kind="section", id=section.name, decision=decision, reason=reason, rule=rule)


def summarize_tools(tools: Iterable[ToolSpec]) -> str:
    """Return one line per tool: its name and the first line of its description."""
    lines = [f"- {one_line(tool.name)}: {_first_line(tool.description)}" for tool in tools]
    return "\n".join(["Tools:", "", *(line.rstrip(": ") for line in lines)]) if lines else ""


def _first_line(text: str) -> str:
    return one_line(text.strip().partition("\n")[0])
