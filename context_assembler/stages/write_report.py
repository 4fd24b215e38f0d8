"""Before and after, side by side: the report."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from context_assembler.ports import TokenCounter
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
        *_with_tokens(pieces, ledger),
        *_message_entries(history, repairs=repairs, cuts=cuts, sent=sent, counter=counter),
        *(
            _kept("note", note.note or note.kind, counter.count_message(note))
            for note in sent
            if note.is_fresh_note or note.kind == "marker"
        ),
    ]
    return Report(
        entries=tuple(entries),
        ledger=ledger,
        parameters=_parameters(settled),
        warnings=(
            *_file_warnings(files if untold_files is None else untold_files),
            *settled.warnings,
            *warnings,
        ),
    )


def _kept(kind: PieceKind, name: str, tokens: int) -> ReportEntry:
    return ReportEntry(
        kind=kind, id=name, decision="kept", tokens_before=tokens, tokens_after=tokens
    )


def _with_tokens(pieces: Iterable[ReportEntry], ledger: Ledger) -> Iterator[ReportEntry]:
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
            before = max(piece.tokens_before, tokens)
            yield replace(piece, tokens_before=before, tokens_after=tokens)
        elif piece.decision in OFFERED:
            yield _sized(piece, tokens_by_piece.get((_LEDGER_KINDS.get(piece.kind), piece.id), 0))
        else:
            yield piece


def _sized(piece: ReportEntry, tokens: int) -> ReportEntry:
    if not tokens:
        return piece
    was = piece.tokens_before if piece.decision == "shortened" else tokens
    return replace(piece, tokens_before=max(was, tokens), tokens_after=tokens)


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
    repairs_by_id: defaultdict[str, list[ReportEntry]] = defaultdict(list)
    for repair in repairs:
        repairs_by_id[repair.id].append(repair)
    cuts_by_id: defaultdict[str, list[ReportEntry]] = defaultdict(list)
    for cut in cuts:
        cuts_by_id[cut.id].append(cut)

    sent_by_id = {message.id: message for message in sent if message.id}
    entries: list[ReportEntry] = []
    for message in history:
        entries.extend(repairs_by_id.pop(message.id, ()))
        own_cuts = cuts_by_id.pop(message.id, None)
        if own_cuts is not None:
            entries.extend(own_cuts)
        elif not message.id or message.id in sent_by_id:
            name = message.id or message.note or message.kind
            row = _kept("message", name, counter.count_message(message))
            final = sent_by_id.get(message.id, message)
            entries.append(replace(row, tokens_after=counter.count_message(final)))
    # What repair dropped is no longer in the history; it comes first, so that nobody overlooks it.
    gone = [entry for left in repairs_by_id.values() for entry in left]
    unplaced = [entry for left in cuts_by_id.values() for entry in left]
    return [*gone, *entries, *unplaced]


def _parameters(settled: Settled) -> tuple[ResolvedParameter, ...]:
    options = settled.options
    return tuple(
        ResolvedParameter(
            name=option.name, value=getattr(options, option.name), layer=settled.layers[option.name]
        )
        for option in fields(options)
        if option.name in settled.layers
    )
