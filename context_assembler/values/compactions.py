"""Compactions that a provider wrote itself: what a reply holds of one, and whom it stands for."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from context_assembler.values.events import CompactionBody
from context_assembler.values.parts import JsonObject, Opaque, Part
from context_assembler.values.reading import as_text, objects_in

ReadsCompaction: TypeAlias = Callable[[CompactionBody], bool]
"""Says whether the blocks of a compaction that a provider wrote can be read."""

COMPACTION_TYPE: Final = "compaction"

# Where the blocks of each provider hold what was compacted. Without it nothing was.
_CONTENT_KEYS: Final = {"anthropic": "content", "openai_responses": "encrypted_content"}
_READABLE_KEYS: Final = {"anthropic": "content"}
_ON_DEMAND: Final = "response.compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedReply:
    """A reply with a compaction in it.

    Attributes:
        before: What the reply said before it; like the request, it is covered.
        block: The compaction itself.
        rest: What the reply said behind it.
    """

    before: tuple[Part, ...]
    block: Opaque
    rest: tuple[Part, ...]


def reads_no_compaction(_body: CompactionBody) -> bool:
    """Whether the blocks can be read by whoever is not known: they cannot."""
    return False


def stands_for_events(body: CompactionBody, reads: ReadsCompaction) -> bool:
    """Whether the compaction replaces what it covers: by its text, or by blocks that can be read."""
    return bool(body.summary.strip()) or (bool(body.native) and reads(body))


def is_compaction(part: Part) -> bool:
    """Whether the part is a compaction that a provider wrote, and not one that failed.

    Source:
        types of the anthropic package 2.14, BetaCompactionBlock: a compaction without content has
        failed, and the server takes no notice of it (read 2026-11-27)
        types of the openai package 3.57, ResponseCompactionItem (read 2026-11-27)
    """
    if not isinstance(part, Opaque) or part.block.get("type") != COMPACTION_TYPE:
        return False
    return bool(as_text(part.block.get(_CONTENT_KEYS.get(part.provider, ""))).strip())


def find_compaction(parts: Sequence[Part]) -> CompactedReply | None:
    """Return the parts of a reply around the latest compaction in it; `None` where there is none."""
    for place in range(len(parts) - 1, -1, -1):
        block = parts[place]
        if isinstance(block, Opaque) and is_compaction(block):
            before, rest = tuple(parts[:place]), tuple(parts[place + 1 :])
            return CompactedReply(before=before, block=block, rest=rest)
    return None


def compacted_window(body: JsonObject, *, provider: str) -> tuple[Opaque, ...]:
    """Return what stands for a whole conversation, in order; empty where a reply is no such result.

    OpenAI's compaction on demand answers with the user's messages and one compaction behind them,
    which go back together.

    Source:
        types of the openai package 3.57, CompactedResponse (read 2026-11-27)
    """
    if body.get("object") != _ON_DEMAND:
        return ()
    return tuple(Opaque(provider=provider, block=entry) for _, entry in objects_in(body["output"]))


def told_blocks(blocks: Iterable[Opaque], *, twin: str) -> tuple[Opaque, ...]:
    """Return the blocks of a compaction with its plain text as what others can read of it."""
    return tuple(replace(b, text=twin) if is_compaction(b) else b for b in blocks)


def twin_of(block: Opaque) -> str:
    """Return the summary that a compaction can be read as; an empty one where it is sealed.

    Source:
        types of the anthropic package 2.14, BetaCompactionBlock (read 2026-11-27)
    """
    return as_text(block.block.get(_READABLE_KEYS.get(block.provider, "")))
