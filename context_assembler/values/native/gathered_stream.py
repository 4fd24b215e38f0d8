"""What a stream tells piece by piece, put together."""

from collections.abc import Sequence
from typing import Any

from context_assembler.values.json_shapes import is_array
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.wire import object_of


def pieces_of(reply: Any) -> Sequence[dict[str, Json]]:
    """Return the events or chunks of a stream as dicts; none where the reply is no list of such."""
    if not is_array(reply):
        return ()
    pieces = [object_of(piece) for piece in reply]
    return [piece for piece in pieces if piece is not None] if all(pieces) else ()


def add_texts(whole: dict[str, Json], piece: JsonObject) -> None:
    """Add to each field what a piece says of it: behind a text, in the place of anything else."""
    for key, said in piece.items():
        before = whole.get(key)
        whole[key] = before + said if isinstance(before, str) and isinstance(said, str) else said
