"""The step that lets edits wait: a system prompt stays what its epoch began with, and is told of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from context_assembler.ports import TokenCounter
from context_assembler.values.draft import Draft
from context_assembler.values.epochs import SentEpoch
from context_assembler.values.events import CompactionBody, SessionEvent
from context_assembler.values.fingerprints import digest_json
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message
from context_assembler.values.options import AssembleOptions
from context_assembler.values.parts import Thinking
from context_assembler.values.prompt import BootstrapFile, PromptSection
from context_assembler.values.report import ReportEntry

FROZEN: Final = "system.frozen"
"""The rule of rows of sections that wait."""

REWRITTEN: Final = "rewrite.system"
"""The rule of the row that announces a changed system prompt."""

_UNTIL: Final = (
    "it applies from the next rewrite point on: a cut, a compaction, another model, or refresh=True"
)
_TOLD: Final[Mapping[str, str]] = {
    "changed": "It has changed, and the text that the epoch began with is sent",
    "appeared": "It appeared since the epoch began and is not sent",
    "gone": "It is gone, or cannot be read or rendered, and the text that the epoch began with is sent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionChange:
    """A section that is another one than in the call before."""

    name: str
    kind: Literal["changed", "appeared", "gone"]


def compare_sections(
    before: Iterable[PromptSection], now: Iterable[PromptSection]
) -> tuple[SectionChange, ...]:
    """Return the sections whose text, or whose being there, is not what it was."""
    old = {section.name: section.content for section in before}
    new = {section.name: section.content for section in now}
    changes: list[SectionChange] = []
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            changes.append(SectionChange(name=name, kind="gone"))
        elif name not in old:
            changes.append(SectionChange(name=name, kind="appeared"))
        elif old[name] != new[name]:
            changes.append(SectionChange(name=name, kind="changed"))
    return tuple(changes)


def frozen_rows(changes: Iterable[SectionChange]) -> Iterator[ReportEntry]:
    """Yield a row for every section whose change waits."""
    for change in changes:
        yield ReportEntry(
            kind="section",
            id=change.name,
            decision="dropped" if change.kind == "appeared" else "kept",
            reason=f"{_TOLD[change.kind]}; {_UNTIL}.",
            rule=FROZEN,
        )


def _as_before(file: BootstrapFile, text: str) -> BootstrapFile:
    is_filled = bool(file.metadata.get("template"))
    what = "it, or what it is filled with, changed" if is_filled else "changed on disk"
    return replace(
        file,
        text=text,
        state="ok" if text else file.state,
        is_shortened=False,
        warnings=(*file.warnings, f"{what}; {_UNTIL}"),
    )


def _section_names(files: Sequence[BootstrapFile]) -> Iterator[str]:
    """Yield each file's section of the prompt: the first of a kind that has a text bears its name."""
    bearers: dict[str, BootstrapFile] = {}
    for file in sorted(files, key=lambda one: one.state != "ok"):
        bearers.setdefault(file.section, file)
    for file in files:
        is_bearer = bearers[file.section] is file
        yield file.section if is_bearer else f"{file.section}:{file.path}"


def file_states(files: Iterable[BootstrapFile]) -> dict[str, str]:
    """Return a fingerprint of the state of every file that there is a warning about."""
    return {
        file.path: digest_json([file.state, file.fingerprint, *file.warnings])
        for file in files
        if file.warnings
    }


def fingerprint_choice(options: AssembleOptions, *, agent_id: str | None) -> str:
    """Return what a caller chose for the system prompt, as a fingerprint."""
    named = (options.skill_filter, options.active_skills)
    skills = [None if names is None else list(names) for names in named]
    return digest_json([agent_id, options.skip_skills, *skills])


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    """The call that another one follows.

    Attributes:
        asked: What the caller chose for the prompt of the other one, as a fingerprint.
        holds: Whether the system prompt is sent again, whatever the files say by now.
    """

    sent: SentEpoch | None = None
    asked: str = ""
    holds: bool = False

    @property
    def held_sections(self) -> tuple[PromptSection, ...] | None:
        """The sections to send again; `None`: those that the files say by now."""
        return self.sent.epoch.sections if self.sent and self.holds else None

    def hold(self, events: Iterable[SessionEvent], *, model: str) -> "LastCall":
        """Return the same with the prompt held, as far as that may be can be told beforehand.

        A compaction that came in since is a rewrite point, as is another model. A caller who asks
        for another agent or other skills gets them.
        """
        sent = self.sent
        if sent is None or sent.made_by.model != model or sent.epoch.asked != self.asked:
            return self
        arrived = (event for event in events if event.seq > sent.answers_seq)
        is_compacted = any(isinstance(event.body, CompactionBody) for event in arrived)
        return replace(self, holds=not is_compacted)

    def shown_files(
        self, files: Sequence[BootstrapFile], pieces: Iterable[ReportEntry]
    ) -> list[BootstrapFile]:
        """Return the files as the model is shown them, with a warning for each change that waits.

        Args:
            pieces: The rows of the prompt's sections, those that wait among them.
        """
        waiting = {row.id for row in pieces if row.rule == FROZEN}
        before = {section.name: section.content for section in self.held_sections or ()}
        return [
            _as_before(file, before.get(name, "")) if name in waiting else file
            for file, name in zip(files, _section_names(files), strict=True)
        ]

    def untold(self, files: Iterable[BootstrapFile]) -> list[BootstrapFile]:
        """Return the files less those whose warnings the last call gave already."""
        told: Mapping[str, str] = self.sent.epoch.told if self.sent else {}
        return [file for file in files if told.get(file.path) != file_states([file]).get(file.path)]

    def announce(
        self, draft: Draft, *, kept: Sequence[Message], ledger: Ledger, counter: TokenCounter
    ) -> tuple[ReportEntry, ...]:
        """Return the row that announces a changed system prompt, with what that costs.

        Args:
            kept: The history after the cut, with all signed reasoning that it has.
            draft: What is sent of it.
        """
        sent = self.sent
        if sent is None or sent.made_by.model != draft.limits.id:
            return ()
        changes = compare_sections(sent.epoch.sections, draft.system.sections)
        if not changes:
            return ()
        names = ", ".join(f"{change.name} {change.kind}" for change in changes)
        old = (message for message in draft.messages if 0 < message.seq <= sent.answers_seq)
        tokens = ledger.fixed_tokens + sum(map(counter.count_message, old))
        lost = _count_signed(kept) - _count_signed(draft.messages)
        reasoning = f", and {lost} signed thinking part(s) are left out" if lost else ""
        reason = (
            f"The system prompt is another one than in the last call ({names}): a new epoch begins. "
            f"Up to {tokens:,} tokens that were sent before are written to the prompt cache "
            f"again{reasoning}."
        )
        row = ReportEntry(kind="note", id="system", decision="kept", reason=reason, rule=REWRITTEN)
        return (row,)


NO_CALL: Final = LastCall()


def _count_signed(messages: Iterable[Message]) -> int:
    parts = (part for message in messages for part in message.parts)
    return sum(isinstance(part, Thinking) and part.is_signed for part in parts)
