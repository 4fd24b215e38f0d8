"""Instruction files as the model is shown them while their edits wait."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from context_assembler.stages.hold_system.comparing import PieceChange, kind_of_file
from context_assembler.values.epochs import UNTIL_REWRITE, PromptPiece
from context_assembler.values.prompt import BootstrapFile

_NOT_READ: Final = "it is gone, or another file is read in its place"


def hold_files(
    files: Sequence[BootstrapFile],
    changes: Iterable[PieceChange],
    *,
    sent: Mapping[str, str],
) -> list[BootstrapFile]:
    """Return the files with the texts that are sent of them, and a warning for each that waits.

    A file that is sent though it is not there any more stands behind the others of its kind.

    Args:
        changes: What became of the pieces of the prompt that is sent.
        sent: The texts that are sent, by section.
    """
    waiting = {path: change for change in changes if (path := _path_of(change))}
    shown = [
        _shown(file, change, sent=sent) if (change := waiting.pop(file.path, None)) else file
        for file in files
    ]
    for change in waiting.values():
        if change.before is not None and change.before.name in sent:
            lost = _lost(change.before, sent[change.before.name])
            shown.insert(_place_behind(shown, lost.section), lost)
    return shown


def _path_of(change: PieceChange) -> str:
    """Return the path of the file whose text waits, or that is not there any more."""
    piece = change.before if change.kind == "gone" else change.now
    return "" if piece is None or change.kind == "same" else piece.path


def _shown(file: BootstrapFile, change: PieceChange, *, sent: Mapping[str, str]) -> BootstrapFile:
    text = "" if change.before is None else sent.get(change.before.name, "")
    if change.kind == "gone" and not text:
        return file
    return replace(
        file,
        text=text,
        state="ok" if text else "waiting",
        is_shortened=False,
        warnings=(*file.warnings, f"{_what_happened(file, change.before)}; {UNTIL_REWRITE}"),
    )


def tell_loss(before: PromptPiece, files: Iterable[BootstrapFile]) -> str:
    """Return what became of a piece that nothing is sent of by now, as the row of its file says it."""
    if not before.path:
        return "it is gone"
    file = next((file for file in files if file.path == before.path), None)
    if file is None:
        return _NOT_READ
    return "; ".join((*file.warnings, _what_happened(file, before)))


def _what_happened(file: BootstrapFile, before: PromptPiece | None) -> str:
    if before is None:
        return "it appeared since the epoch began, or what the settings make of it"
    if file.state == "missing":
        return "it is gone"
    if not before.source:
        return "changed on disk, or what is made of it"
    if before.source != file.source_fingerprint:
        is_empty = file.state == "empty"
        return "changed on disk, and nothing is left of it" if is_empty else "changed on disk"
    if file.state == "blocked":
        return "another file says the same by now"
    if file.metadata.get("template"):
        return "what it is filled with changed"
    return "what the settings make of it changed"


def _lost(before: PromptPiece, text: str) -> BootstrapFile:
    gone = f"{_NOT_READ}; {UNTIL_REWRITE}"
    return BootstrapFile(
        section=kind_of_file(before), path=before.path, state="ok", text=text, warnings=(gone,)
    )


def _place_behind(files: Sequence[BootstrapFile], section: str) -> int:
    places: Iterator[int] = (at for at, file in enumerate(files, 1) if file.section == section)
    return max(places, default=len(files))
