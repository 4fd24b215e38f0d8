"""`SystemPromptBuilder`: sections by priority → one prompt; what fits, and what an epoch began with."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.events import JsonObject
from context_assembler.ports import Placement, PromptSection, Skill, ToolSpec
from context_assembler.prompt.cutting import cut_text
from context_assembler.prompt.files import BootstrapFile, FileState
from context_assembler.report import Decision, ReportEntry, Rule
from context_assembler.texts import CountText, one_line

SEPARATOR: Final = "\n\n---\n\n"
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
FROZEN: Final = "system.frozen"  # the rule of an entry whose edit waits
_NEXT_REWRITE: Final = "the next rewrite point"
UNTIL_REWRITE: Final = (
    f"it applies from {_NEXT_REWRITE} on: a cut, a compaction, another model, or refresh=True"
)

# Whose text may instruct the model. The developer's own instruction files are the developer's.
_AUTHORITIES: Final = ("developer", "assembler")
# What the session and the call bring themselves is never left out by `inherits`.
_NEVER_INHERITED: Final = ("session", "additional")
_HISTORY_SHARE: Final = 0.2  # what of the budget belongs to the history
_SHORTEST_SECTION_TOKENS: Final = 100


class BuiltPrompt(NamedTuple):
    """A system prompt as sections in the order sent, notes to place after the history, an entry each."""

    sections: tuple[PromptSection, ...] = ()
    notes: tuple[PromptSection, ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    separator: str = SEPARATOR

    @property
    def text(self) -> str:
        """The whole system prompt."""
        return self.separator.join(section.content for section in self.sections)

    def __repr__(self) -> str:
        names = ", ".join(section.name for section in self.sections)
        return f"BuiltPrompt({len(self.text):,} characters: {names[:200]})"


class ShownSkills(NamedTuple):
    """What one call's prompt has of skills, what became of each, and what went wrong.

    `left_out` are the entries of skills that are not in the list at all.
    """

    skills: tuple[Skill, ...] = ()
    active: tuple[str, ...] = ()
    text: str = ""
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: tuple[ReportEntry, ...] = ()

    @property
    def with_tools(self) -> list[Skill]:
        """The active skills that bring tools."""
        return [one for one in self.skills if one.name in self.active and one.tools]


class SystemPromptBuilder:
    """Builds the system prompt: `SystemPromptBuilder().build([PromptSection(name=…, content=…)])`.

    Args:
        priorities: Overrides of `PRIORITIES`, by section.
        required: Sections that are never shortened or dropped.
        sections: The application's own sections, in every prompt. One with a standard name has that
            section's place, unless something else gives the section. Text that is not the
            developer's own (memory, tools, files, the user) goes after the history, where it is data.
        inherits: By agent, the only sections that its prompt has; an agent that is not named has
            all. What the session and the call bring themselves always stays.

    Raises:
        UnknownOptionError: A setting names a section that does not exist.
        ConfigurationError: Two sections have one name, or one has none.
    """

    def __init__(
        self,
        *,
        priorities: Mapping[str, int] | None = None,
        required: Iterable[str] = ("agent",),
        sections: Iterable[PromptSection] = (),
        inherits: Mapping[str, Iterable[str]] | None = None,
        separator: str = SEPARATOR,
    ) -> None:
        self._sections, self.separator = tuple(sections), separator
        self._required = frozenset((*required, "session"))
        self._priorities = {**PRIORITIES, **(priorities or {})}
        self._inherits = {name: frozenset(of) for name, of in (inherits or {}).items()}
        _refuse_shared_names(self._sections)
        known = {*PRIORITIES, *(section.name for section in self._sections)}
        inherited = (name for names in self._inherits.values() for name in sorted(names))
        for name in (*self._priorities, *self._required, *inherited):
            if name not in known:
                raise UnknownOptionError(name, kind="prompt section", known=known)

    def sections_of(self, agent_id: str | None) -> frozenset[str] | None:
        """Return the names of the only sections that an agent's prompt has; `None`: all."""
        return self._inherits.get(agent_id or "")

    def build(
        self,
        sections: Iterable[PromptSection] = (),
        *,
        files: Iterable[BootstrapFile] = (),
        system: str = "",
        texts: Mapping[str, str] | None = None,
        session_system: Iterable[str] = (),
        skills_text: str = "",
        tools_summary: str = "",
        additional: str | None = None,
        datetime_text: str = "",
        agent_id: str | None = None,
    ) -> BuiltPrompt:
        """Return one prompt, highest priority first; equal priorities keep the order given here.

        Args:
            sections: The call's or the session's own, after those of the application.
            files: Instruction files; those without text have no section.
            system: The text of the section `agent`, unless a file gives it.
            texts: By name, what the `text_of` of sections returned.
            session_system: Texts of the system messages that the session begins with.
            additional: The call's own addition. In the prompt it would change the prefix from call
                to call, so it goes after the history.
            datetime_text: A date that stays the same throughout the session.
            agent_id: Whose prompt it is, for `inherits`.
        """
        own = [
            replace(one, content=(texts or {}).get(one.name, "")) if one.text_of else one
            for one in (*self._sections, *sections)
        ]
        _refuse_shared_names(own)
        standard = {"session": "\n\n".join(session_system), "skills": skills_text}
        standard |= {"tools": tools_summary, "additional": additional or ""}
        standard["datetime"] = datetime_text
        given = [*self._of_files(files), *(self._standard(*one) for one in standard.items())]
        given = [(group, section) for group, section in given if section.content.strip()]
        entries, shown = list[ReportEntry](), list[tuple[PromptSection, ReportEntry]]()
        if system.strip():
            own.insert(0, PromptSection(name="agent", content=system))
        taken = {group for group, _ in given}
        for section in own:
            if not section.content.strip():
                entries.append(_entry(section, "dropped", "it is empty", "empty"))
            elif section.name in taken:
                reason = "a file, the session or the call gives that section"
                beside = replace(section, name=f"{section.name}:own")
                entries.append(_entry(beside, "dropped", reason, "overridden"))
            else:
                taken.add(section.name)
                given.append((section.name, self._settled(section)))
        names = self.sections_of(agent_id)
        for group, section in given:
            if names is None or group in names or group in _NEVER_INHERITED:
                shown.append(_placed(group, section))
            else:
                reason = f"the agent {agent_id!r} does not inherit it"
                entries.append(_entry(section, "dropped", reason, "inherits"))
        shown.sort(key=lambda one: -one[0].priority)
        first = [one for one in shown if _is_in_system(one[0])]
        notes = [one for one in shown if not _is_in_system(one[0])]
        return BuiltPrompt(
            sections=tuple(section for section, _ in first),
            notes=tuple(replace(section, placement="note") for section, _ in notes),
            entries=(*(entry for _, entry in (*first, *notes)), *entries),
            separator=self.separator,
        )

    def find_missed(
        self,
        files: Iterable[BootstrapFile],
        sections: Iterable[PromptSection],
        *,
        agent_id: str | None = None,
    ) -> Iterator[str]:
        """Yield a warning for each reason that the prompt lacks a required section of the files.

        Args:
            files: All that were looked for; none if nobody named a folder.
            sections: Those of the prompt that is sent.
        """
        allowed = self.sections_of(agent_id)
        sent = {section.name.partition(":")[0] for section in sections}
        nearest: dict[str, BootstrapFile] = {}
        for file in files:
            if allowed is None or file.section in allowed:
                nearest.setdefault(file.section, file)
        # A blocked file with an encoding is a copy of one that is sent.
        lost = [
            file
            for name, file in nearest.items()
            if name not in sent and not (file.state == "blocked" and file.encoding)
        ]
        wanted = [file for file in lost if file.section in self._required]
        for file in wanted or (lost[:1] if sent.isdisjoint(nearest) else ()):
            nothing = f"nothing of {file.path} is sent, because it is {file.state}."
            why = file.absence if file.state == "missing" else f"{nothing} Correct the file."
            yield f"The system prompt lacks {file.section!r}: {why}"

    def _of_files(self, files: Iterable[BootstrapFile]) -> Iterator[tuple[str, PromptSection]]:
        seen = set[str]()
        for file in files:
            if file.state == "ok":
                group, one = self._standard(file.section, file.text)
                name = f"{group}:{file.path}" if group in seen else group
                seen.add(group)
                yield group, replace(one, name=name, path=file.path)

    def _standard(self, name: str, content: str) -> tuple[str, PromptSection]:
        placement: Placement = "note" if name == "additional" else "system"
        return name, self._settled(PromptSection(name=name, content=content, placement=placement))

    def _settled(self, section: PromptSection) -> PromptSection:
        """Return the section with the priority of its name, and whether it is required."""
        priority = section.priority or self._priorities.get(section.name, 0)
        is_asked = section.name in self._required and section.origin in _AUTHORITIES
        return replace(section, priority=priority, is_required=section.is_required or is_asked)


def _is_in_system(section: PromptSection) -> bool:
    return section.placement == "system" and section.origin in _AUTHORITIES


def _refuse_shared_names(sections: Iterable[PromptSection]) -> None:
    taken = {"clock"}  # the name of the assembler's own note
    for section in sections:
        if not section.name.strip() or section.name in taken:
            problem = f"The name {section.name!r} is empty, or belongs to another prompt section."
            remedy = "Give the section a name of its own: settings and reports use it."
            raise ConfigurationError(problem, remedy=remedy)
        taken.add(section.name)


def _placed(group: str, section: PromptSection) -> tuple[PromptSection, ReportEntry]:
    """Return the section without space around it, and with the reason if it is a note.

    The session's own prompt is what the application sent before: it keeps its space.
    """
    content = section.content if group == "session" else section.content.strip()
    rule: Rule = "" if _is_in_system(section) else "note"
    reason = "placed after the history" if rule else ""
    if rule and section.placement == "system":
        rule = "origin"
        reason = f"{reason}: what comes from {section.origin!r} has no authority"
    section = replace(section, content=content)
    return section, _entry(section, "kept", reason, rule)


def _entry(
    section: PromptSection, decision: Decision, reason: str = "", rule: Rule = ""
) -> ReportEntry:
    return ReportEntry("section", section.name, decision, reason=reason, rule=rule)


def summarize_tools(tools: Iterable[ToolSpec]) -> str:
    """Return one line per tool: its name and the first line of its description."""
    firsts = ((tool.name, tool.description.strip().partition("\n")[0]) for tool in tools)
    lines = [f"- {one_line(name)}: {one_line(words)}".rstrip(": ") for name, words in firsts]
    return "\n".join(["Tools:", "", *lines]) if lines else ""


# ---- room ----


def fit_prompt(
    built: BuiltPrompt,
    *,
    count_system: CountText,
    count_text: CountText,
    budget_tokens: int,
    other_fixed_tokens: int = 0,
) -> BuiltPrompt:
    """Shorten, then drop, optional sections until a share of the budget is left for the history.

    The lowest priority goes first, of equal priorities the later one. Required sections are left
    alone; whether the rest is feasible is for the ledger to say.

    Args:
        count_system: Counts a whole system prompt.
        budget_tokens: What system prompt, tools, history and notes may use together.
        other_fixed_tokens: Tools and the overhead of the request.
    """
    allowed = int(budget_tokens * (1 - _HISTORY_SHARE)) - other_fixed_tokens
    kept, entries = dict(enumerate(built.sections)), {entry.id: entry for entry in built.entries}

    def excess(sections: Mapping[int, PromptSection]) -> int:
        texts = (sections[at].content for at in sorted(sections))
        return count_system(built.separator.join(texts)) - allowed

    optional = [at for at, section in kept.items() if not section.is_required]
    for at in sorted(optional, key=lambda at: (kept[at].priority, -at)):
        if excess(kept) <= 0:
            break
        before, text = kept.pop(at), ""
        free = -excess(kept)
        while free >= _SHORTEST_SECTION_TOKENS:
            name = before.path or before.name
            text = cut_text(before.content, max_tokens=free, name=name, count_text=count_text)
            over = excess({**kept, at: replace(before, content=text)})
            if over <= 0:
                break
            free, text = min(free, count_text(text)) - over, ""
        kept |= {at: replace(before, content=text)} if text else {}
        of = f"this optional section of priority {before.priority} is the least important one left"
        reason = f"System prompt and tools leave too little for the history; {of}."
        rule: Rule = "system.shorten" if text else "system.drop"
        entry = _entry(before, "shortened" if text else "dropped", reason, rule)
        before_tokens, tokens = count_text(before.content), count_text(text)
        entries[before.name] = entry._replace(tokens_before=before_tokens, tokens_after=tokens)
    return built._replace(
        sections=tuple(kept[at] for at in sorted(kept)),
        entries=tuple(entries.pop(entry.id) for entry in built.entries if entry.id in entries),
    )


# ---- epochs ----


def prompt_record(
    built: BuiltPrompt, sent: BuiltPrompt, files: Iterable[BootstrapFile]
) -> JsonObject:
    """Return what a call's row keeps of its system prompt, next to the hash of the text.

    Args:
        built: Everything that the files and settings ask for.
        sent: What was sent of it.
    """
    return {
        "sections": [[one.name, len(one.content), one.path] for one in sent.sections],
        "pieces": [[one.name, one.path, _digest(one.content)] for one in built.sections],
        "separator": len(sent.separator),
        "files": {file.path: _state(file) for file in files if file.warnings},
    }


class SentPrompt:
    """The system prompt of a recorded call: its text, and what `prompt_record` kept next to it."""

    def __init__(self, text: str, record: JsonObject) -> None:
        self._record, at, sections = record, 0, list[PromptSection]()
        for name, chars, path in record.get("sections", ()):
            sections.append(PromptSection(name=name, content=text[at : at + chars], path=path))
            at += chars + record["separator"]
        self.sections = tuple(sections)
        self._sent = {one.path or one.name: one for one in sections}
        # By the file's path, or the name: the name, and the digest of the whole text.
        self._pieces = {path or name: (name, of) for name, path, of in record.get("pieces", ())}

    def unreported(self, files: Iterable[BootstrapFile]) -> list[BootstrapFile]:
        """Return the files whose warnings the last call did not give yet."""
        given = self._record.get("files", {})
        return [file for file in files if file.warnings and _state(file) != given.get(file.path)]

    def differences(self, sent: BuiltPrompt) -> str:
        """Return which sections differ from those of the call before; empty if none does."""
        if [one.content for one in self.sections] == [one.content for one in sent.sections]:
            return ""
        new = {one.path or one.name: one for one in sent.sections}
        named = list[str]()
        for key, one in {**self._sent, **new}.items():
            if key not in new or key not in self._sent:
                named.append(f"{one.name} {'appeared' if key in new else 'gone'}")
            elif new[key].content != self._sent[key].content:
                named.append(f"{one.name} changed")
        return ", ".join(named) or "the order of its sections changed"

    def keep(self, built: BuiltPrompt, names: Collection[str]) -> BuiltPrompt:
        """Return the prompt with these sections as they were sent: what they say now is a note."""
        sections, entries = list[PromptSection](), {entry.id: entry for entry in built.entries}
        for one in built.sections:
            _, whole = self._pieces.get(one.name, ("", ""))
            sent = self._sent.get(one.name)
            if one.name not in names or sent is None or whole == _digest(one.content):
                sections.append(one)
                continue
            sections.append(replace(one, content=sent.content))
            reason = f"Its text has changed; the new text is a note until {_NEXT_REWRITE}."
            entries[one.name] = _entry(sections[-1], "kept", reason, "system.note")
        return built._replace(sections=tuple(sections), entries=tuple(entries.values()))

    def hold(
        self, built: BuiltPrompt, files: Iterable[BootstrapFile], sent: BuiltPrompt
    ) -> tuple[BuiltPrompt, list[BootstrapFile]]:
        """Return this prompt in place of another, and the files as the model gets them.

        Every edit that waits has an entry, and a warning on its file.

        Args:
            built: What the files and settings ask for.
            sent: What the window would leave of it; its entries stand for what did not change.
        """
        entries, shown = {entry.id: entry for entry in sent.entries}, {f.path: f for f in files}
        new = {one.path or one.name: (one.name, _digest(one.content)) for one in built.sections}
        for key, (name, whole) in {**new, **self._pieces}.items():
            old = self._sent.get(key)
            if key not in new:
                what = "is gone"
            elif key not in self._pieces:
                what = "is new"
            elif new[key][1] != whole:
                what = "has changed"
            elif old is not None and _digest(old.content) == whole:
                continue
            else:
                what = "was cut earlier in this epoch, because it had no room"
            sends = "the text that the epoch began with is sent" if old else "it is not sent"
            reason = f"It {what}, and {sends}; {UNTIL_REWRITE}."
            decision: Decision = "kept" if old else "dropped"
            entries[name] = ReportEntry("section", name, decision, reason=reason, rule=FROZEN)
            if key != name and not what.startswith("was cut"):
                file = shown.get(key) or BootstrapFile(name.partition(":")[0], key, "missing")
                warnings = (*file.warnings, f"it {what} on disk; {UNTIL_REWRITE}")
                state: FileState = "ok" if old else "waiting"
                text = old.content if old else ""
                shown[key] = file._replace(text=text, state=state, warnings=warnings)
        order = {one.name: at for at, one in enumerate(self.sections)}
        ordered = sorted(entries.values(), key=lambda entry: order.get(entry.id, len(order)))
        held = built._replace(sections=self.sections, entries=tuple(ordered))
        return held, list(shown.values())


def _digest(*texts: str) -> str:
    raw = "\0".join(texts).encode("utf-8", "surrogatepass")
    return blake2b(raw, digest_size=8).hexdigest()


def _state(file: BootstrapFile) -> str:
    return _digest(file.state, file.text, *file.warnings)
