"""Compares two system prompts, piece by piece, by what they were made from."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from context_assembler.values.epochs import Epoch, PromptPiece
from context_assembler.values.fingerprints import digest_json
from context_assembler.values.prompt import BootstrapFile, PromptSection

ChangeKind: TypeAlias = Literal["same", "changed", "appeared", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceChange:
    """What became of one piece of a prompt since the call before.

    Attributes:
        name: The piece's in the report: that of the section that was sent, or of the one that was
            not yet.
        before: As it was; `None`: it was not there.
        now: As it is by now; `None`: it is not there any more.
    """

    name: str
    before: PromptPiece | None = None
    now: PromptPiece | None = None

    @property
    def kind(self) -> ChangeKind:
        """Whether the piece is another one; how it is cut to the window does not count."""
        if self.before is None:
            return "appeared"
        if self.now is None:
            return "gone"
        return "same" if self.before.whole == self.now.whole else "changed"


def pieces_of(
    sections: Iterable[PromptSection], files: Iterable[BootstrapFile] = ()
) -> tuple[PromptPiece, ...]:
    """Return what the sections are made from, before any of them is cut to the window."""
    sources = {file.path: file.source_fingerprint for file in files}
    return tuple(
        PromptPiece(
            name=section.name,
            path=section.path,
            source=sources.get(section.path, ""),
            whole=fingerprint_text(section.content),
        )
        for section in sections
    )


def sent_pieces(epoch: Epoch) -> tuple[PromptPiece, ...]:
    """Return what a call's prompt was made from; records of older versions tell the sections alone."""
    return epoch.pieces or pieces_of(epoch.sections)


def fingerprint_text(text: str) -> str:
    """Return what tells a section's text from any other."""
    return digest_json(text)


def compare_pieces(
    before: Sequence[PromptPiece], now: Sequence[PromptPiece]
) -> tuple[PieceChange, ...]:
    """Return what became of every piece, those that appeared last.

    A file is known by its path. One that is gone while another of its kind says the very same is that
    other one: it was renamed, or the whole folder was moved. All else is known by its name.
    """
    partners = _find_partners(before, now)
    found = {piece.name for piece in partners.values()}
    taken = {piece.name for piece in before}
    return (
        *(PieceChange(name=old.name, before=old, now=partners.get(old.name)) for old in before),
        *(
            PieceChange(name=f"{new.name}:{new.path}" if new.name in taken else new.name, now=new)
            for new in now
            if new.name not in found
        ),
    )


def _find_partners(
    before: Sequence[PromptPiece], now: Sequence[PromptPiece]
) -> dict[str, PromptPiece]:
    """Return the piece that each earlier one is by now, by the earlier one's name."""
    partners: dict[str, PromptPiece] = {}
    left = {piece.name: piece for piece in now}
    for is_partner in _LIKENESSES:
        for old in before:
            if old.name in partners:
                continue
            new = next((one for one in left.values() if is_partner(old, one)), None)
            if new is not None:
                partners[old.name] = left.pop(new.name)
    return partners


def _have_one_path(old: PromptPiece, new: PromptPiece) -> bool:
    return bool(old.path) and old.path == new.path


def _say_the_same(old: PromptPiece, new: PromptPiece) -> bool:
    return bool(new.path) and old.whole == new.whole and kind_of_file(old) == kind_of_file(new)


def _have_one_name(old: PromptPiece, new: PromptPiece) -> bool:
    return old.name == new.name and not (old.path and new.path)


# The surest first.
_LIKENESSES: Final[tuple[Callable[[PromptPiece, PromptPiece], bool], ...]] = (
    _have_one_path,
    _say_the_same,
    _have_one_name,
)


def kind_of_file(piece: PromptPiece) -> str:
    """Return the section that files of the piece's kind, near and far, are in."""
    return piece.name.partition(":")[0]


def tell_differences(before: Epoch, after: Epoch) -> Iterator[str]:
    """Yield in words what of the prompt is another text than in the call before; none: nothing is."""
    old, new = _contents(before), _contents(after)
    if list(old.values()) == list(new.values()):
        return
    said = False
    for change in compare_pieces(sent_pieces(before), sent_pieces(after)):
        was = None if change.before is None else old.get(change.before.name)
        is_now = None if change.now is None else new.get(change.now.name)
        if was == is_now:
            continue
        said = True
        yield f"{change.name} {_in_words(change)}"
    if not said:
        yield "the order of its sections changed"


def _in_words(change: PieceChange) -> str:
    return "cut to another length" if change.kind == "same" else change.kind


def _contents(epoch: Epoch) -> Mapping[str, str]:
    return {section.name: section.content for section in epoch.sections}
