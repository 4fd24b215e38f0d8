"""The step that lets edits wait: a system prompt stays what its epoch began with, and is told of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from context_assembler.ports import TokenCounter
from context_assembler.stages.hold_system.comparing import (
    compare_pieces,
    pieces_of,
    sent_pieces,
    tell_differences,
)
from context_assembler.stages.hold_system.held_files import hold_files
from context_assembler.stages.hold_system.held_rows import HELD_SHORT, HeldRows, tell_refusal
from context_assembler.stages.hold_system.prompts import FittedPrompt, FreshPrompt, contents_of
from context_assembler.values.draft import Draft
from context_assembler.values.epochs import FROZEN, Epoch, PromptPiece, SentEpoch
from context_assembler.values.events import CompactionBody, SessionEvent
from context_assembler.values.fingerprints import digest_json
from context_assembler.values.ledger import Ledger
from context_assembler.values.messages import Message
from context_assembler.values.options import AssembleOptions
from context_assembler.values.parts import Thinking
from context_assembler.values.prompt import BootstrapFile, PromptSection, SystemPrompt
from context_assembler.values.report import ReportEntry

__all__ = [
    "NO_CALL",
    "REWRITTEN",
    "WAITING",
    "FindSecret",
    "FittedPrompt",
    "FreshPrompt",
    "LastCall",
    "file_states",
    "fingerprint_choice",
    "pieces_of",
]

REWRITTEN: Final = "rewrite.system"
"""The rule of the row that announces a changed system prompt."""

WAITING: Final = frozenset({FROZEN, HELD_SHORT})
"""The rules of rows of sections that another prompt would be sent of."""

FindSecret: TypeAlias = Callable[[Iterable[str]], bool]
"""Whether one of these texts of instruction files holds what is to be masked there."""

# Sections in which secrets can be masked, besides those with a path: older records have no paths.
_MASKED: Final = frozenset({"agent", "soul", "context", "skills"})

# From here on a window counts as another one, in which more of a prompt that was cut has its place.
_MUCH_LARGER: Final = 1.25


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


@dataclass(frozen=True, kw_only=True)
class LastCall:
    """The call that another one follows.

    Attributes:
        asked: What the caller chose for the prompt of the other one, as a fingerprint.
        holds: Whether the system prompt is sent again, whatever the files say by now.
        secrets: Its sections that hold what is to be masked: what changes there cannot wait.
    """

    sent: SentEpoch | None = None
    asked: str = ""
    holds: bool = False
    secrets: frozenset[str] = frozenset()

    @property
    def held(self) -> Epoch | None:
        """The epoch whose prompt is to be sent again; `None`: the files have their say."""
        return self.sent.epoch if self.sent and self.holds else None

    def hold(
        self,
        events: Iterable[SessionEvent],
        *,
        model: str,
        finds_secret: FindSecret = lambda _: False,
    ) -> "LastCall":
        """Return the same with the prompt held, as far as that may be can be told beforehand.

        A compaction that came in since is a rewrite point, as is another model. A caller who asks
        for another agent or other skills gets them.
        """
        sent = self.sent
        if sent is None or sent.made_by.model != model or sent.epoch.asked != self.asked:
            return self
        arrived = (event for event in events if event.seq > sent.answers_seq)
        is_compacted = any(isinstance(event.body, CompactionBody) for event in arrived)
        if is_compacted:
            return self
        masked = [one for one in sent.epoch.sections if _is_masked(one)]
        secrets = frozenset(one.name for one in masked if finds_secret([one.content]))
        return replace(self, holds=True, secrets=secrets)

    def let_go(self) -> "LastCall":
        """Return the same with the prompt no longer held."""
        return replace(self, holds=False)

    def choose(self, fresh: FreshPrompt, held: SystemPrompt | None) -> FittedPrompt:
        """Return the held prompt, unless the window is another one by now; else the fresh one.

        Args:
            held: What the window leaves of the prompt to be sent again, if there is one.
        """
        changes = compare_pieces(sent_pieces(self.sent.epoch), fresh.pieces) if self.sent else ()
        differing = (change.name for change in changes if change.kind != "same")
        if exposed := [name for name in differing if name in self.secrets]:
            chosen = fresh.chosen
            return replace(chosen, rows=(*chosen.rows, tell_refusal(exposed)))
        epoch = self.held
        if epoch is None or held is None or held.sections != epoch.sections:
            return fresh.chosen
        if _has_outgrown(epoch, fresh) and not fresh.lacks_template:
            return fresh.chosen
        rows = HeldRows(held=held, fresh=fresh).tell(changes)
        return FittedPrompt(system=held, rows=rows, pieces=fresh.pieces, epoch=epoch)

    def has_kept(self, draft: Draft) -> bool:
        """Whether the request has the prompt that was to be sent again, if there was one."""
        return self.held is None or draft.system.sections == self.held.sections

    def shown_files(
        self, files: Sequence[BootstrapFile], *, now: Sequence[PromptPiece]
    ) -> list[BootstrapFile]:
        """Return the files as the model is shown them, with a warning for each change that waits.

        Args:
            now: What the files ask for by now.
        """
        if (epoch := self.held) is None:
            return list(files)
        sent = contents_of(SystemPrompt(sections=epoch.sections))
        return hold_files(files, compare_pieces(sent_pieces(epoch), now), sent=sent)

    def untold(self, files: Iterable[BootstrapFile]) -> list[BootstrapFile]:
        """Return the files less those whose warnings the last call gave already."""
        told: Mapping[str, str] = self.sent.epoch.told if self.sent else {}
        return [file for file in files if told.get(file.path) != file_states([file]).get(file.path)]

    def announce(
        self,
        draft: Draft,
        epoch: Epoch,
        *,
        kept: Sequence[Message],
        ledger: Ledger,
        counter: TokenCounter,
    ) -> tuple[ReportEntry, ...]:
        """Return the row that announces a changed system prompt, with what that costs.

        Args:
            draft: What is sent.
            epoch: What is kept of its prompt.
            kept: The history after the cut, with all signed reasoning that it has.
        """
        sent = self.sent
        if sent is None or sent.made_by.model != draft.limits.id:
            return ()
        changes = ", ".join(tell_differences(sent.epoch, epoch))
        if not changes:
            return ()
        old = (message for message in draft.messages if 0 < message.seq <= sent.answers_seq)
        tokens = ledger.fixed_tokens + sum(map(counter.count_message, old))
        lost = _count_signed(kept) - _count_signed(draft.messages)
        reasoning = f", and {lost} signed thinking part(s) are left out" if lost else ""
        reason = (
            f"The system prompt is another one than in the last call ({changes}): a new epoch begins. "
            f"Up to {tokens:,} tokens that were sent before are written to the prompt cache "
            f"again{reasoning}."
        )
        row = ReportEntry(kind="note", id="system", decision="kept", reason=reason, rule=REWRITTEN)
        return (row,)


NO_CALL: Final = LastCall()


def _is_masked(section: PromptSection) -> bool:
    """Whether secrets can be masked in the section: it is the text of a file, or of skills."""
    return bool(section.path) or section.name in _MASKED


def _has_outgrown(epoch: Epoch, fresh: FreshPrompt) -> bool:
    """Whether a prompt that was cut has more room in the window of this call."""
    if not epoch.cut_for_tokens or fresh.budget_tokens <= epoch.cut_for_tokens:
        return False
    return not fresh.is_cut or fresh.budget_tokens >= _MUCH_LARGER * epoch.cut_for_tokens


def _count_signed(messages: Iterable[Message]) -> int:
    parts = (part for message in messages for part in message.parts)
    return sum(isinstance(part, Thinking) and part.is_signed for part in parts)
