"""`SystemPromptBuilder`: sections by priority → one prompt; what fits, and what an epoch began with."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.events import JsonObject
from context_assembler.ports import PromptSection, ToolSpec
from context_assembler.prompt.cutting import cut_lines, seal_text
from context_assembler.prompt.files import BootstrapFile, FileState, digest
from context_assembler.report import Decision, ReportEntry
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
REWRITTEN: Final = "rewrite.system"  # the rule of the entry that announces another system prompt
UNTIL_REWRITE: Final = (
    "it applies from the next rewrite point on: a cut, a compaction, another model, or refresh=True"
)

# Whose text may instruct the model. The developer's own instruction files are the developer's.
_AUTHORITIES: Final = ("developer", "assembler")
# What the session and the call bring themselves is never left out by `inherits`.
_NEVER_INHERITED: Final = ("session", "additional")
_HISTORY_SHARE: Final = 0.2  # what of the budget belongs to the history
_SHORTEST_SECTION_TOKENS: Final = 100
# From here on a window counts as another one, with room for more of a prompt that was cut.
_MUCH_LARGER: Final = 1.25
_NOTHING_LEFT: Final = {
    "ok": "what its template is rendered with leaves nothing of it",
    "empty": "nothing is left of it except comments and white space",
    "unreadable": "it cannot be read",
    "blocked": "it was refused",
    "waiting": "it is not sent before the next rewrite point",
}


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


class _Candidate(NamedTuple):
    """A section with text; `group` is the name that settings use: near and far files share it."""

    group: str
    section: PromptSection
    remarks: tuple[str, ...] = ()
    entry: ReportEntry | None = None


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
        max_tokens: By section, its longest text.

    Raises:
        UnknownOptionError: A setting names a section that does not exist.
        ConfigurationError: Two sections have one name, one has none, or one that is not the
            developer's own is required in the system prompt.
    """

    def __init__(
        self,
        *,
        priorities: Mapping[str, int] | None = None,
        required: Iterable[str] = ("agent",),
        sections: Iterable[PromptSection] = (),
        inherits: Mapping[str, Iterable[str]] | None = None,
        max_tokens: Mapping[str, int] | None = None,
        separator: str = SEPARATOR,
    ) -> None:
        self._sections = tuple(sections)
        self._required = frozenset((*required, "session"))
        self._priorities = {**PRIORITIES, **(priorities or {})}
        self._inherits = {name: frozenset(of) for name, of in (inherits or {}).items()}
        self._max_tokens = dict(max_tokens or {})
        self.separator = separator
        _refuse_unsound(self._sections)
        known = {*PRIORITIES, *(section.name for section in self._sections)}
        inherited = (name for names in self._inherits.values() for name in sorted(names))
        for name in (*self._priorities, *self._required, *inherited, *self._max_tokens):
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
            sections: The call's or the session's own, after those of the application.
            files: Instruction files; those without text have no section.
            session_system: Texts of the system messages that the session begins with.
            additional: The call's own addition. In the prompt it would change the prefix from call
                to call, so it goes after the history.
            datetime_text: A date that stays the same throughout the session.
            agent_id: Whose prompt it is, for `inherits`.
            count_text: Counts tokens, for `max_tokens`; without it no section is shortened.
        """
        own = (*self._sections, *sections)
        _refuse_unsound(own)
        given = [*self._of_files(files)]
        for name, text in {
            "session": "\n\n".join(session_system),
            "skills": skills_text,
            "tools": tools_summary,
            "additional": additional or "",
            "datetime": datetime_text,
        }.items():
            given.append(self._standard(name, text, is_note=name == "additional"))
        given = [one for one in given if one.section.content.strip()]
        entries: list[ReportEntry] = []
        taken = {one.group for one in given}
        for section in own:
            if not section.content.strip():
                entries.append(_entry(section, "dropped", "it is empty", "empty"))
            elif section.name in taken:
                reason = "a file, the session or the call gives that section"
                entries.append(_entry(section, "dropped", reason, "overridden"))
            else:
                given.append(self._own(section))
        names = self.sections_of(agent_id)
        if names is not None:
            reason = f"the agent {agent_id!r} does not inherit it"
            allowed = names.union(_NEVER_INHERITED)
            others = (one.section for one in given if one.group not in allowed)
            entries[:0] = [_entry(section, "dropped", reason, "inherits") for section in others]
            given = [one for one in given if one.group in allowed]
        given = [_stripped(one) for one in given]
        if count_text is not None:
            for group, most in self._max_tokens.items():
                _cap(given, group, most, count_text)
        ordered = sorted(given, key=lambda one: -one.section.priority)
        system = [one for one in ordered if _is_in_system(one.section)]
        notes = [one for one in ordered if not _is_in_system(one.section)]
        return BuiltPrompt(
            sections=tuple(one.section for one in system if one.section.content),
            notes=tuple(
                _with(one.section, placement="note") for one in notes if one.section.content
            ),
            entries=(*map(_system_entry, system), *map(_note_entry, notes), *entries),
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
        missed = [  # a blocked file with an encoding is a copy of one that is sent
            file
            for name, file in nearest.items()
            if name not in sent and not (file.state == "blocked" and file.encoding)
        ]
        wanted = [file for file in missed if file.section in self._required]
        if not wanted and sent.isdisjoint(nearest):
            wanted = missed[:1]
        names: dict[str, list[str]] = {}
        for file in wanted:
            why = f"nothing of {file.path} is sent: {_NOTHING_LEFT.get(file.state)}. Correct the file."
            if file.state == "missing":
                why = file.absence or f"there is no file {file.path}. Write it."
            names.setdefault(why, []).append(repr(file.section))
        for why, missing in names.items():
            yield f"The system prompt lacks {' and '.join(missing)}: {why}"

    def _of_files(self, files: Iterable[BootstrapFile]) -> Iterator[_Candidate]:
        seen = set[str]()
        for file in files:
            if file.state == "ok":
                one = self._standard(file.section, file.text)
                name = f"{file.section}:{file.path}" if file.section in seen else file.section
                seen.add(file.section)
                yield one._replace(section=_with(one.section, name=name, path=file.path))

    def _standard(self, name: str, content: str, *, is_note: bool = False) -> _Candidate:
        section = PromptSection(
            name=name,
            content=content,
            priority=self._priorities.get(name, 0),
            placement="note" if is_note else "system",
            is_required=name in self._required,
        )
        return _Candidate(name, section)

    def _own(self, section: PromptSection) -> _Candidate:
        if section.name in PRIORITIES and not section.priority:
            section = _with(section, priority=self._priorities[section.name])
        is_required = section.is_required or (
            section.name in self._required and _is_in_system(section)
        )
        return _Candidate(section.name, _with(section, is_required=is_required))


def _with(section: PromptSection, **changes: object) -> PromptSection:
    return replace(section, **changes)  # type: ignore[arg-type]  # each field has its own type


def _is_in_system(section: PromptSection) -> bool:
    return section.placement == "system" and section.origin in _AUTHORITIES


def _refuse_unsound(sections: Iterable[PromptSection]) -> None:
    taken = {"clock"}  # the name of the assembler's own note
    for section in sections:
        if not section.name.strip() or section.name in taken:
            raise ConfigurationError(
                f"The name {section.name!r} is empty, or belongs to another section of the prompt.",
                remedy="Give the section a name of its own: settings and reports use it.",
            )
        taken.add(section.name)
        if section.is_required and section.placement == "system" and not _is_in_system(section):
            raise ConfigurationError(
                f"The section {section.name!r} comes from {section.origin!r} and is required in the "
                "system prompt, which takes only the developer's own text.",
                remedy="Give it placement='note', or is_required=False to have it placed so.",
            )


def _stripped(one: _Candidate) -> _Candidate:
    """Return the section without space around it, and sealed if it is part of the prompt.

    The session's own prompt is what the application sent before: it keeps its space.
    """
    content = one.section.content
    content = content if one.group == "session" else content.strip()
    remarks = one.remarks
    if _is_in_system(one.section):
        content, remarks = seal_text(content)
    return one._replace(section=_with(one.section, content=content), remarks=remarks)


def _cap(given: list[_Candidate], group: str, most: int, count_text: CountText) -> None:
    """Shorten the sections of a group to its tokens, the last one first."""
    places = [at for at, one in enumerate(given) if one.group == group]
    tokens = {at: count_text(given[at].section.content) for at in places}
    excess = sum(tokens.values()) - most
    for at in reversed(places):
        if excess <= 0:
            return
        section = given[at].section
        budget = f"the budget of the section {group!r}: {most:,} tokens"
        if section.is_required:
            remarks = (*given[at].remarks, f"required, though over {budget}")
            given[at] = given[at]._replace(remarks=remarks)
            continue
        allowed = max(0, tokens[at] - excess)
        text = cut_lines(section.content, max_tokens=allowed, count_text=count_text)
        left = count_text(text)
        reason = f"{'It was over' if text else 'Nothing of it fits'} {budget}."
        entry = _entry(section, "shortened" if text else "dropped", reason, "section.budget")
        entry = entry._replace(tokens_before=tokens[at], tokens_after=left)
        given[at] = given[at]._replace(section=_with(section, content=text), entry=entry)
        excess -= tokens[at] - left


def _system_entry(one: _Candidate) -> ReportEntry:
    return one.entry or _entry(one.section, "kept", "; ".join(one.remarks))


def _note_entry(one: _Candidate) -> ReportEntry:
    placed = "placed after the history"
    if one.section.placement == "system":
        placed = f"{placed}: what comes from {one.section.origin!r} has no authority"
    if one.entry is not None:
        is_left = one.entry.decision != "dropped"
        reason = f"{one.entry.reason} It is {placed}." if is_left else one.entry.reason
        return one.entry._replace(reason=reason)
    rule = "note" if one.section.placement == "note" else "origin"
    return _entry(one.section, "kept", "; ".join([placed, *one.remarks]), rule)


def _entry(
    section: PromptSection, decision: Decision, reason: str = "", rule: str = ""
) -> ReportEntry:
    return ReportEntry("section", section.name, decision, reason=reason, rule=rule)


def summarize_tools(tools: Iterable[ToolSpec]) -> str:
    """Return one line per tool: its name and the first line of its description."""
    lines = [
        f"- {one_line(tool.name)}: {one_line(tool.description.strip().partition(chr(10))[0])}"
        for tool in tools
    ]
    return "\n".join(["Tools:", "", *(line.rstrip(": ") for line in lines)]) if lines else ""


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
    kept = dict(enumerate(built.sections))

    def excess(sections: Mapping[int, PromptSection]) -> int:
        texts = (sections[at].content for at in sorted(sections))
        return count_system(built.separator.join(texts)) - allowed

    entries = {entry.id: entry for entry in built.entries}
    optional = [at for at, section in kept.items() if not section.is_required]
    for at in sorted(optional, key=lambda at: (kept[at].priority, -at)):
        if excess(kept) <= 0:
            break
        before = kept.pop(at)
        text = ""
        free = -excess(kept)
        while free >= _SHORTEST_SECTION_TOKENS:
            text = cut_lines(before.content, max_tokens=free, count_text=count_text)
            over = excess({**kept, at: _with(before, content=text)})
            if over <= 0:
                break
            free, text = min(free, count_text(text)) - over, ""
        if text:
            kept[at] = _with(before, content=text)
        reason = (
            "System prompt and tools leave too little for the history; this optional section of "
            f"priority {before.priority} is the least important one left."
        )
        rule = "system.shorten" if text else "system.drop"
        entry = _entry(before, "shortened" if text else "dropped", reason, rule)
        sizes = count_text(before.content), count_text(text)
        entries[before.name] = entry._replace(tokens_before=sizes[0], tokens_after=sizes[1])
    return built._replace(
        sections=tuple(kept[at] for at in sorted(kept)),
        entries=tuple(entries.pop(entry.id) for entry in built.entries if entry.id in entries),
    )


# ---- epochs ----


class _Piece(NamedTuple):
    """What a section is made from: the file's path and digest, and the digest of its whole text."""

    name: str
    path: str
    source: str
    whole: str


class _Change(NamedTuple):
    """What became of one piece since the last call."""

    name: str
    before: _Piece | None
    now: _Piece | None

    @property
    def kind(self) -> str:
        if self.before is None or self.now is None:
            return "appeared" if self.before is None else "gone"
        return "same" if self.before.whole == self.now.whole else "changed"


def prompt_record(
    built: BuiltPrompt, sent: BuiltPrompt, files: Iterable[BootstrapFile], *, budget_tokens: int = 0
) -> JsonObject:
    """Return what a call's row keeps of its system prompt, next to the hash of the text.

    Args:
        built: Everything that the files and settings ask for.
        sent: What was sent of it.
    """
    files = list(files)
    record = {
        "sections": [[one.name, len(one.content), one.path] for one in sent.sections],
        "pieces": [list(piece) for piece in _pieces(built, files)],
        "separator": len(sent.separator),
        "files": _states(files),
    }
    if built.sections != sent.sections:
        record["cut_for"] = budget_tokens
    return record


class SentPrompt:
    """The system prompt of a recorded call: its text, and what `prompt_record` kept next to it."""

    def __init__(self, text: str, record: JsonObject) -> None:
        self.text, self.record = text, record
        at, step = 0, record.get("separator", len(SEPARATOR))
        sections = []
        for name, chars, path in record.get("sections", ()):
            sections.append(PromptSection(name=name, content=text[at : at + chars], path=path))
            at += chars + step
        self.sections = tuple(sections)
        self._pieces = [_Piece(*piece) for piece in record.get("pieces", ())]

    def unreported(self, files: Iterable[BootstrapFile]) -> list[BootstrapFile]:
        """Return the files whose warnings the last call did not give yet."""
        given = self.record.get("files", {})
        return [file for file in files if file.warnings and _state(file) != given.get(file.path)]

    def differences(self, sent: BuiltPrompt, files: Iterable[BootstrapFile] = ()) -> str:
        """Return which sections differ from those of the call before; empty if none does."""
        old = {section.name: section.content for section in self.sections}
        new = {section.name: section.content for section in sent.sections}
        if list(old.values()) == list(new.values()):
            return ""
        changes = _changes(self._pieces, _pieces(sent, files))
        named = [
            f"{one.name} {'cut to another length' if one.kind == 'same' else one.kind}"
            for one in changes
            if old.get(one.before.name if one.before else "")
            != new.get(one.now.name if one.now else "")
        ]
        return ", ".join(named) or "the order of its sections changed"

    def has_outgrown(self, built: BuiltPrompt, sent: BuiltPrompt, budget_tokens: int) -> bool:
        """Whether this prompt was cut, and the window of this call has room for more of it."""
        cut_for = self.record.get("cut_for", 0)
        if not cut_for or budget_tokens <= cut_for:
            return False
        return built.sections == sent.sections or budget_tokens >= _MUCH_LARGER * cut_for

    def hold(
        self, built: BuiltPrompt, files: Sequence[BootstrapFile], sent: BuiltPrompt
    ) -> tuple[BuiltPrompt, list[BootstrapFile]]:
        """Return this prompt in place of another, and the files as the model gets them.

        Every edit that waits has an entry, and a warning on its file.

        Args:
            built: What the files and settings ask for.
            sent: What the window would leave of it; its entries stand for what did not change.
        """
        texts = {section.name: section.content for section in self.sections}
        entries = {entry.id: entry for entry in sent.entries}
        files = list(files)
        for change in _changes(self._pieces, _pieces(built, files)):
            old = None if change.before is None else texts.get(change.before.name)
            if change.kind == "same" and change.now is not None:
                held = entries.pop(change.now.name, None)
                if held is not None:
                    entries[change.name] = held._replace(id=change.name)
                if old is None or digest(old) != change.now.whole:
                    cut = "left out" if old is None else "shortened"
                    reason = f"Earlier in this epoch there was less room: it stays {cut}"
                    decision: Decision = "dropped" if old is None else "shortened"
                    entries[change.name] = _frozen(change.name, decision, reason)
                continue
            entries.pop(change.now.name if change.now else "", None)
            what = {"gone": "It is gone", "appeared": "It appeared since the epoch began"}
            reason = what.get(change.kind, "It has changed")
            if old is not None:
                reason = f"{reason}, and the text that the epoch began with is sent"
            elif change.now is None:
                continue
            entries[change.name] = _frozen(
                change.name, "dropped" if old is None else "kept", reason
            )
            _hold_file(files, change, old or "")
        order = {name: at for at, name in enumerate(texts)}
        ordered = sorted(entries.values(), key=lambda entry: order.get(entry.id, len(order)))
        return built._replace(sections=self.sections, entries=tuple(ordered)), files


def _frozen(name: str, decision: Decision, reason: str) -> ReportEntry:
    reason = f"{reason}; {UNTIL_REWRITE}."
    return ReportEntry("section", name, decision, reason=reason, rule=FROZEN)


def _hold_file(files: list[BootstrapFile], change: _Change, text: str) -> None:
    """Give the changed file the text that is sent, and a warning that its edit waits."""
    piece = change.before if change.now is None else change.now
    if piece is None or not piece.path:
        return
    for at, file in enumerate(files):
        if file.path == piece.path:
            what = "it is gone" if file.state == "missing" else "changed on disk"
            if change.before is None:
                what = "it appeared since the epoch began"
            elif file.source == change.before.source:
                what = "what it is rendered with, or what the settings make of it, changed"
            warnings = (*file.warnings, f"{what}; {UNTIL_REWRITE}")
            state: FileState = "ok" if text else "waiting"
            files[at] = file._replace(text=text, state=state, warnings=warnings, is_shortened=False)
            return
    section = piece.name.partition(":")[0]
    gone = f"it is gone, or another file is read in its place; {UNTIL_REWRITE}"
    file = BootstrapFile(section, piece.path, "ok", text=text, warnings=(gone,))
    last = max((at for at, one in enumerate(files, 1) if one.section == section), default=0)
    files.insert(last or len(files), file)


def _pieces(built: BuiltPrompt, files: Iterable[BootstrapFile]) -> list[_Piece]:
    sources = {file.path: file.source for file in files}
    return [
        _Piece(one.name, one.path, sources.get(one.path, ""), digest(one.content))
        for one in built.sections
    ]


def _changes(before: Sequence[_Piece], now: Sequence[_Piece]) -> list[_Change]:
    """Return what became of every piece, those that appeared last.

    A file is known by its path. One that is gone while another of its kind has the same text is that
    other one: it was renamed, or its folder was moved. Everything else is known by its name.
    """
    likenesses: tuple[Callable[[_Piece, _Piece], bool], ...] = (
        lambda old, new: bool(old.path) and old.path == new.path,
        lambda old, new: (
            bool(new.path)
            and old.whole == new.whole
            and old.name.partition(":")[0] == new.name.partition(":")[0]
        ),
        lambda old, new: old.name == new.name and not (old.path and new.path),
    )
    partners: dict[str, _Piece] = {}
    left = {piece.name: piece for piece in now}
    for is_like in likenesses:
        for old in before:
            if old.name not in partners:
                new = next((one for one in left.values() if is_like(old, one)), None)
                if new is not None:
                    partners[old.name] = left.pop(new.name)
    taken = {piece.name for piece in before}
    return [_Change(old.name, old, partners.get(old.name)) for old in before] + [
        _Change(f"{new.name}:{new.path}" if new.name in taken else new.name, None, new)
        for new in left.values()
    ]


def _state(file: BootstrapFile) -> str:
    return digest(file.state, file.text, *file.warnings)


def _states(files: Iterable[BootstrapFile]) -> dict[str, str]:
    return {file.path: _state(file) for file in files if file.warnings}
