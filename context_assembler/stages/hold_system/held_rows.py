"""What the report says of the sections of a prompt that is sent again, whatever the files say."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from context_assembler.stages.hold_system.comparing import PieceChange, fingerprint_text
from context_assembler.stages.hold_system.held_files import tell_loss
from context_assembler.stages.hold_system.prompts import FreshPrompt, contents_of
from context_assembler.values.epochs import FROZEN, UNTIL_REWRITE, PromptPiece
from context_assembler.values.prompt import SystemPrompt
from context_assembler.values.report import Decision, ReportEntry

HELD_SHORT: Final = "system.held_short"
"""The rule of rows of sections that stay as an earlier call shortened them."""

NOT_HELD: Final = "system.not_held"
"""The rule of the row that tells why no edit waits, where that is no rewrite point."""

_UNTIL_ROOM: Final = (
    "that applies until the next rewrite point, or a window with room for more of the prompt"
)
_IS_SENT: Final = "the text that the epoch began with is sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """Tells of a prompt that is sent again, by what the files ask for by now."""

    held: SystemPrompt
    fresh: FreshPrompt

    def tell(self, changes: Iterable[PieceChange]) -> tuple[ReportEntry, ...]:
        """Return the rows of the fresh prompt as they hold for the one that is sent, in its order.

        Args:
            changes: What became of the pieces of the prompt that is sent.
        """
        changes = list(changes)
        told: dict[str, ReportEntry] = {}
        names: dict[str, str] = {}
        for change in changes:
            if change.now is not None:
                names[change.now.name] = change.name
            if (row := self._row(change)) is not None:
                told[change.name] = row
        renamed = (_named(row, names) for row in self.fresh.built_rows)
        known = [told.pop(row.id, row) for row in renamed]
        places = {name: place for place, name in enumerate(contents_of(self.held))}
        rows = sorted((*known, *told.values()), key=lambda row: places.get(row.id, len(places)))
        return (*rows, *self._row_of_order(changes))

    def _row_of_order(self, changes: Iterable[PieceChange]) -> Iterator[ReportEntry]:
        """Yield a row if the sections that are sent would stand in another order by now."""
        sent = contents_of(self.held)
        names = {one.now.name: one.name for one in changes if one.now and one.name in sent}
        order = [names[piece.name] for piece in self.fresh.pieces if piece.name in names]
        if order != list(names.values()):
            yield ReportEntry(
                kind="note",
                id="system",
                decision="kept",
                reason=f"The order of its sections changed ({', '.join(order)}), and the one that the "
                f"epoch began with is sent; {UNTIL_REWRITE}.",
                rule=FROZEN,
            )

    def _row(self, change: PieceChange) -> ReportEntry | None:
        """Return the row of a piece that is not sent as the files have it by now."""
        if change.before is None:
            return _frozen(change, "dropped", "It appeared since the epoch began and is not sent")
        text = contents_of(self.held).get(change.before.name)
        if change.now is not None and change.kind == "same":
            return self._row_of_cut(change, text, now=change.now)
        if text is None and change.now is None:
            return None  # it was left out then, and would not be there by now
        if text is None:
            return _frozen(change, "dropped", "It was left out for want of room, and has changed")
        happened = "it has changed"
        if change.now is None:
            happened = tell_loss(change.before, self.fresh.files)
        reason = f"{happened[:1].upper()}{happened[1:]}, and {_IS_SENT}"
        if is_whole(text, change.before):
            return _frozen(change, "kept", reason)
        return _frozen(change, "shortened", f"{reason}, as it was shortened then")

    def _row_of_cut(
        self, change: PieceChange, text: str | None, *, now: PromptPiece
    ) -> ReportEntry | None:
        """Return the row of an unchanged piece that is not sent whole."""
        if text is not None and fingerprint_text(text) == now.whole:
            return None
        if text == contents_of(self.fresh.fitted).get(now.name):
            row = next(row for row in self.fresh.fitted_rows if row.id == now.name)
            return replace(row, id=change.name)
        cut = "left out" if text is None else "shortened"
        return ReportEntry(
            kind="section",
            id=change.name,
            decision="dropped" if text is None else "shortened",
            tokens_before=self.fresh.count_text(contents_of(self.fresh.built)[now.name]),
            reason=f"An earlier call of this epoch had less room: as it was {cut} in an earlier call, "
            f"so it is in this one; {_UNTIL_ROOM}.",
            rule=HELD_SHORT,
        )


def is_whole(text: str, piece: PromptPiece) -> bool:
    """Whether the text of a section is all that there was of it."""
    return fingerprint_text(text) == piece.whole


def tell_refusal(names: Iterable[str]) -> ReportEntry:
    """Return the row that says why no edit waits: what is masked by now may not be sent again.

    Args:
        names: Of the sections that it was found in.
    """
    return ReportEntry(
        kind="note",
        id="bootstrap.policy",
        decision="kept",
        reason="The system prompt of the last call is not sent again, and no edit waits in this call: "
        f"secrets are masked by now that it has in {', '.join(names)}.",
        rule=NOT_HELD,
    )


def _named(row: ReportEntry, names: Mapping[str, str]) -> ReportEntry:
    return replace(row, id=names.get(row.id, row.id))


def _frozen(change: PieceChange, decision: Decision, reason: str) -> ReportEntry:
    return ReportEntry(
        kind="section",
        id=change.name,
        decision=decision,
        reason=f"{reason}; {UNTIL_REWRITE}.",
        rule=FROZEN,
    )
