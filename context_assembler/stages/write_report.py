"""Before and after, side by side: the report."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from context_assembler.ports import TokenCounter
from context_assembler.values.growing import Growing
from context_assembler.values.ledger import Ledger, LedgerKind, divide_tokens
from context_assembler.values.messages import Message
from context_assembler.values.options import Settled
from context_assembler.values.prompt import BootstrapFile, FileState
from context_assembler.values.report import (
    OFFERED,
    Decision,
    PieceKind,
    Report,
    ReportEntry,
    ResolvedParameter,
    find_bearers,
)

_FILE_DECISIONS: Mapping[FileState, Decision] = {
    "ok": "kept",
    "missing": "dropped",
    "empty": "dropped",
    "unreadable": "dropped",
    "blocked": "blocked",
    "waiting": "dropped",
}
_FILE_REASONS: Mapping[FileState, str] = {
    "ok": "",
    "missing": "There is no such file.",
    "empty": "Nothing is left of it but comments and white space.",
    "unreadable": "It cannot be read.",
    "blocked": "It was refused.",
    "waiting": "It is not sent yet.",
}
_LEDGER_KINDS: Mapping[PieceKind, LedgerKind] = {"section": "system"}


def write_report(
    *,
    files: Sequence[BootstrapFile],
    pieces: Iterable[ReportEntry],
    repairs: Iterable[ReportEntry],
    history: Sequence[Message],
    cuts: Iterable[ReportEntry],
    sent: Sequence[Message],
    ledger: Ledger,
    settled: Settled,
    warnings: Sequence[str],
    counter: TokenCounter,
    untold_files: Sequence[BootstrapFile] | None = None,
) -> Report:
    """List every considered piece in order of appearance, with the ledger and the settings.

    Args:
        pieces: What became of sections, skills and tools.
        repairs: What repair did to messages.
        history: The repaired history, before anything was cut.
        cuts: One entry for every message of it that was shortened or dropped.
        sent: What is sent in the end, with this call's notes and the markers.
        untold_files: Those whose warnings were not given before; all by default.
    """
    entries = [
        *_file_entries(files, counter=counter),
        *size_pieces(pieces, ledger),
        *_message_entries(history, repairs=repairs, cuts=cuts, sent=sent, counter=counter),
        *_note_entries(sent, counter=counter),
    ]
    return Report(
        entries=Growing(entries),
        ledger=ledger,
        parameters=_parameters(settled),
        warnings=(
            *_file_warnings(files if untold_files is None else untold_files),
            *settled.warnings,
            *warnings,
        ),
    )


def _kept(kind: PieceKind, name: str, tokens: int, *, tokens_after: int) -> ReportEntry:
    return ReportEntry(
        kind=kind, id=name, decision="kept", tokens_before=tokens, tokens_after=tokens_after
    )


def _with_tokens(row: ReportEntry, *, before: int, after: int) -> ReportEntry:
    """Return the row with these tokens; the row itself where it has them already."""
    if row.tokens_before == before and row.tokens_after == after:
        return row
    return replace(row, tokens_before=before, tokens_after=after)


def size_pieces(pieces: Iterable[ReportEntry], ledger: Ledger) -> Iterator[ReportEntry]:
    """Yield the entries of pieces with their tokens in the ledger, so that both add up.

    Skills share what the ledger has for their section. Of a tool's entries one bears what its
    definition takes, even where the tool is withdrawn and the definition has to stay.
    """
    listed = list(pieces)
    tokens_by_piece: Mapping[tuple[LedgerKind | None, str], int] = {
        (row.kind, row.name): row.tokens for row in ledger.rows
    }
    tokens_by_skill = _divide_among_skills(listed, tokens_by_piece.get(("system", "skills"), 0))
    bearers = find_bearers(listed)
    for at, piece in enumerate(listed):
        if piece.kind == "skill" and piece.tokens_after:
            yield _sized(piece, tokens_by_skill[piece.id])
        elif piece.kind == "tool":
            is_bearer = bearers[piece.kind, piece.id] == at
            tokens = tokens_by_piece.get(("tools", piece.id), 0) if is_bearer else 0
            yield _with_tokens(piece, before=max(piece.tokens_before, tokens), after=tokens)
        elif piece.decision in OFFERED:
            yield _sized(piece, tokens_by_piece.get((_LEDGER_KINDS.get(piece.kind), piece.id), 0))
        else:
            yield piece


def _sized(piece: ReportEntry, tokens: int) -> ReportEntry:
    if not tokens:
        return piece
    was = piece.tokens_before if piece.decision == "shortened" else tokens
    return _with_tokens(piece, before=max(was, tokens), after=tokens)


def _divide_among_skills(pieces: Iterable[ReportEntry], whole_tokens: int) -> dict[str, int]:
    told = [piece for piece in pieces if piece.kind == "skill" and piece.tokens_after]
    shares = divide_tokens(whole_tokens, [piece.tokens_after for piece in told])
    return {piece.id: tokens for piece, tokens in zip(told, shares, strict=True)}


def _file_entries(files: Sequence[BootstrapFile], *, counter: TokenCounter) -> list[ReportEntry]:
    entries: list[ReportEntry] = []
    for file in files:
        tokens = counter.count_text(file.text) if file.text else 0
        is_cut = file.state == "ok" and file.is_shortened
        entries.append(
            ReportEntry(
                kind="file",
                id=file.path,
                decision="shortened" if is_cut else _FILE_DECISIONS[file.state],
                tokens_before=tokens,
                tokens_after=tokens,
                reason="; ".join(file.warnings) or _FILE_REASONS[file.state],
                rule="file.shortened" if is_cut else f"file.{file.state}",
            )
        )
    return entries


def _file_warnings(files: Sequence[BootstrapFile]) -> list[str]:
    return [f"{file.path}: {warning}" for file in files for warning in file.warnings]


def _message_entries(
    history: Sequence[Message],
    *,
    repairs: Iterable[ReportEntry],
    cuts: Iterable[ReportEntry],
    sent: Sequence[Message],
    counter: TokenCounter,
) -> list[ReportEntry]:
    repairs_by_id, cuts_by_id = _by_id(repairs), _by_id(cuts)
    entries: list[ReportEntry] = []
    for message, final in _pair_with_sent(history, sent):
        rows = repairs_by_id.pop(_name_of(message), [])
        rows += _cuts_of(message, final, cuts_by_id)
        tokens = 0 if final is None else counter.count_message(final)
        if any(row.tokens_before for row in rows):
            entries += _borne_by_one(rows, tokens)
        elif final is None:
            entries += rows
        else:
            before = tokens if final is message else counter.count_message(message)
            kept = _kept("message", _name_of(message), before, tokens_after=tokens)
            entries += [*(row for row in rows if row.decision != "kept"), _told(kept, rows)]
    # What repair dropped is no longer in the history; it comes first, so that nobody overlooks it.
    # Notes of this call have rows of their own, which bear what they take.
    gone, unplaced = (
        [
            _with_tokens(row, before=row.tokens_before, after=0)
            for left in rows_by_id.values()
            for row in left
        ]
        for rows_by_id in (repairs_by_id, cuts_by_id)
    )
    return [*gone, *entries, *unplaced]


def _told(kept: ReportEntry, rows: Iterable[ReportEntry]) -> ReportEntry:
    """Return the row of what is kept with what else there is to say of it: what a summary covers."""
    told = next((row for row in rows if row.decision == "kept"), None)
    return kept if told is None else replace(kept, reason=told.reason, rule=told.rule)


def rows_of_kept(messages: Iterable[Message], *, counter: TokenCounter) -> Iterator[ReportEntry]:
    """Yield the entries of messages that are sent as they are."""
    for message in messages:
        tokens = counter.count_message(message)
        yield _kept("message", _name_of(message), tokens, tokens_after=tokens)


def _note_entries(sent: Iterable[Message], *, counter: TokenCounter) -> Iterator[ReportEntry]:
    """Yield the entries of this call's notes and of the markers."""
    for message in sent:
        if message.is_fresh_note or message.kind == "marker":
            tokens = counter.count_message(message)
            name = message.note or message.kind
            yield _kept("note", name, tokens, tokens_after=tokens)


def _by_id(rows: Iterable[ReportEntry]) -> defaultdict[str, list[ReportEntry]]:
    rows_by_id: defaultdict[str, list[ReportEntry]] = defaultdict(list)
    for row in rows:
        rows_by_id[row.id].append(row)
    return rows_by_id


def _name_of(message: Message) -> str:
    return message.id or message.note or message.kind


def _pair_with_sent(
    history: Sequence[Message], sent: Iterable[Message]
) -> Iterator[tuple[Message, Message | None]]:
    """Yield every message with what is sent of it in the end, if anything is.

    Messages without an id are found by their place between those with one.
    """
    own = [one for one in sent if not one.is_fresh_note and one.kind != "marker"]
    places_by_id = {one.id: at for at, one in enumerate(own) if one.id}
    at = 0
    for message in history:
        if message.id:
            place = places_by_id.get(message.id)
        else:
            is_next = at < len(own) and not own[at].id and _name_of(own[at]) == _name_of(message)
            place = at if is_next else None
        at = at if place is None else place + 1
        yield message, None if place is None else own[place]


def _cuts_of(
    message: Message, final: Message | None, cuts_by_id: Mapping[str, list[ReportEntry]]
) -> list[ReportEntry]:
    """Take the rows of a message's cut; those of messages without an id stand in their order."""
    rows = cuts_by_id.get(message.id, [])
    if not message.id:
        is_next = bool(rows) and (rows[0].decision == "dropped") == (final is None)
        return [rows.pop(0)] if is_next and final != message else []
    taken = list(rows)
    rows.clear()
    return taken


def _borne_by_one(rows: Sequence[ReportEntry], tokens: int) -> list[ReportEntry]:
    """Return a message's rows, the last one that has a size with what the message takes."""
    *others, bearer = sorted(rows, key=lambda row: row.tokens_before > 0)
    before = max(row.tokens_before for row in rows)
    unsized = (_with_tokens(row, before=0, after=0) for row in others)
    return [*unsized, _with_tokens(bearer, before=before, after=tokens)]


def _parameters(settled: Settled) -> tuple[ResolvedParameter, ...]:
    options = settled.options
    return tuple(
        ResolvedParameter(
            name=option.name, value=getattr(options, option.name), layer=settled.layers[option.name]
        )
        for option in fields(options)
        if option.name in settled.layers
    )
