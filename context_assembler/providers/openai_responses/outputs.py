"""The items that answer calls."""

from collections.abc import Iterable
from dataclasses import dataclass

from context_assembler.providers.openai_responses.content import (
    Piece,
    pieces_of,
    plain_text,
    text_piece,
)
from context_assembler.values.native_calls import NATIVE_CALLS
from context_assembler.values.parts import Json, Opaque, ToolResult
from context_assembler.values.response_items import PROVIDER, without_nulls
from context_assembler.values.wire import plain_json

_SILENT_FAILURE = "the tool failed without saying why"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The call that a result answers: its id as sent, and its type where it is no function."""

    call_id: str
    kind: str = ""


def output_entry(result: ToolResult, call: Answered) -> dict[str, Json]:
    """Return the item that answers a call: text as a string, pictures and files in a list.

    There is no flag for errors, so words mark them. A provider's own output goes back as it came.

    Source:
        https://developers.openai.com/api/docs/guides/function-calling (read 2026-11-27)
    """
    own = _own_output(result)
    if own is not None:
        return {**own, "call_id": call.call_id}
    pieces = [piece for part in result.content for piece in pieces_of(part)]
    if result.is_error:
        pieces = _mark_error(pieces)
    text = plain_text(pieces)
    native = NATIVE_CALLS.get(call.kind)
    if native is not None and (text is not None or native.spell_output is None):
        return native.write_output(
            text or "(no output)", call_id=call.call_id, is_error=result.is_error
        )
    kind = "function_call_output" if native is None else native.output_kind
    output: Json = pieces if text is None else text or "(no output)"
    return {"type": kind, "call_id": call.call_id, "output": output}


def _own_output(result: ToolResult) -> dict[str, Json] | None:
    """Return the provider's own item where the result is one."""
    if len(result.content) != 1:
        return None
    part = result.content[0]
    if not isinstance(part, Opaque) or part.provider != PROVIDER:
        return None
    is_output = str(part.block.get("type")).endswith("_output")
    return without_nulls(plain_json(part.block)) if is_output else None


def _mark_error(pieces: Iterable[Piece]) -> list[Piece]:
    marked = list(pieces)
    if marked and marked[0]["type"] == "input_text":
        return [text_piece(f"ERROR: {marked[0]['text']}"), *marked[1:]]
    return [text_piece(f"ERROR: {_SILENT_FAILURE}"), *marked]
