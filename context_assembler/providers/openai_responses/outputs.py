"""The items that answer calls."""

from collections.abc import Iterable
from typing import Final

from context_assembler.providers.openai_responses.content import (
    Piece,
    pieces_of,
    plain_text,
    text_piece,
)
from context_assembler.providers.openai_responses.forms import CallForm
from context_assembler.values.native.native_calls import NATIVE_CALLS, NativeCall, with_answered_id
from context_assembler.values.native.response_items import (
    PROVIDER,
    sendable,
    told_of_output,
    without_nulls,
)
from context_assembler.values.openai.outputs import NO_OUTPUT, mark_failure
from context_assembler.values.parts import Json, Opaque, Part, ToolResult
from context_assembler.values.reading import as_object, as_text

_FUNCTION_OUTPUT: Final = "function_call_output"
_PLACES: Final[tuple[str, ...]] = ("image_url", "file_id")


def output_entry(result: ToolResult, call_id: str, form: CallForm) -> dict[str, Json]:
    """Return the item that answers a call: text as a string, pictures and files in a list.

    There is no flag for errors, so words mark them. A provider's own output goes back as it came,
    and what a program called names the program.

    Args:
        call_id: The id of the call as sent; `form` is how that call goes.

    Source:
        https://developers.openai.com/api/docs/guides/function-calling
        types of the openai package 3.57, FunctionCallOutput.caller (read 2026-11-27)
    """
    native = NATIVE_CALLS.get(form.kind)
    own = _own_output(result, native)
    entry = _written(result, call_id, native) if own is None else with_answered_id(own, call_id)
    if native is None or not native.needs_id:
        beside = {"caller": form.caller} if form.caller is not None else {}
        entry = {**beside, **told_of_output(result), **entry}
    return entry


def _written(result: ToolResult, call_id: str, native: NativeCall | None) -> dict[str, Json]:
    pieces = [piece for part in result.content for piece in _pieces(part)]
    if native is not None and native.takes_picture:
        return _screenshot(pieces[0], call_id, native)
    if result.is_error:
        pieces = _mark_error(pieces)
    text = plain_text(pieces)
    if native is not None and (text is not None or native.spell_output is None):
        return native.write_output(text or NO_OUTPUT, call_id=call_id, is_error=result.is_error)
    kind = _FUNCTION_OUTPUT if native is None else native.output_kind
    output: Json = pieces if text is None else text or NO_OUTPUT
    return {"type": kind, "call_id": call_id, "output": output}


def _own_output(result: ToolResult, native: NativeCall | None) -> dict[str, Json] | None:
    """Return the provider's own item where the result is one that can answer this call."""
    if len(result.content) != 1:
        return None
    [part] = result.content
    if not isinstance(part, Opaque) or part.provider != PROVIDER:
        return None
    taken = {_FUNCTION_OUTPUT} if native is None else {_FUNCTION_OUTPUT, native.output_kind}
    return without_nulls(sendable(part.block)) if part.block.get("type") in taken else None


def _pieces(part: Part) -> Iterable[Piece]:
    """Return the pieces of a part; of the output of a computer the picture in it."""
    if isinstance(part, Opaque) and part.provider == PROVIDER:
        shown = as_object(part.block.get("output"))
        place = {key: shown[key] for key in _PLACES if as_text(shown.get(key))}
        if shown.get("type") == "computer_screenshot" and place:
            return ({"type": "input_image", "detail": "auto", **place},)
    return pieces_of(part)


def _screenshot(picture: Piece, call_id: str, native: NativeCall) -> dict[str, Json]:
    place = {key: picture[key] for key in _PLACES if key in picture}
    shown: Piece = {"type": "computer_screenshot", **place}
    return {"type": native.output_kind, "call_id": call_id, "output": shown}


def _mark_error(pieces: Iterable[Piece]) -> list[Piece]:
    marked = list(pieces)
    if marked and marked[0]["type"] == "input_text":
        return [text_piece(mark_failure(marked[0]["text"])), *marked[1:]]
    return [text_piece(mark_failure("")), *marked]
