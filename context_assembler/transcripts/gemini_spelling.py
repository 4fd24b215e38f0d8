"""Parts as the parts of Gemini contents, in the spelling of its REST API.

Parts of this provider's go back verbatim; of another provider's, what can be read of them.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

from context_assembler.transcripts.media_sources import tell_file
from context_assembler.transcripts.unparsed_arguments import arguments_to_write
from context_assembler.values.native.gemini_fields import own_extras
from context_assembler.values.native.gemini_parts import PROVIDER, is_part, spell_response
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    MediaSource,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.reading import as_object

MADE_UP_ID: Final = "gemini_call_{}"
_MADE_UP: Final = re.compile(r"gemini_call_\d+")

SpelledPart: TypeAlias = dict[str, Json]


def write_part(part: Part, names_by_call: Mapping[str, str]) -> SpelledPart | None:
    """Return a part as its spelling; `None` for what has none.

    Args:
        names_by_call: The functions' names by the ids of their calls: a response carries one.
    """
    match part:
        case Text(text, signature=signature):
            return _signed({"text": text, **_beside(part)}, signature)
        case Image() | Document():
            return _write_media(part.source, "image" if isinstance(part, Image) else "document")
        case Thinking():
            if part.block is not None and part.provider == PROVIDER:
                return dict(part.block)
            if not part.text and part.provider != PROVIDER:
                return None  # hidden reasoning of another provider
            return {"text": part.text, "thought": True, **_beside(part)}
        case ToolCall():
            return _write_call(part)
        case ToolResult():
            return _write_result(part, names_by_call)
        case Opaque(provider=provider, block=block, text=text):
            if provider == PROVIDER:
                return dict(block) if is_part(block) else None
            return {"text": text} if text else None
        case _:
            assert_never(part)


def _beside(part: Text | Thinking | ToolCall | ToolResult, nested: str = "") -> SpelledPart:
    """Return what was read beside what we know of a part; without that of its object."""
    extras = own_extras(part.extras, provider=PROVIDER)
    return {key: held for key, held in extras.items() if key != nested}


def _inside(part: ToolCall | ToolResult, nested: str) -> SpelledPart:
    return as_object(own_extras(part.extras, provider=PROVIDER).get(nested))


def _signed(spelled: SpelledPart, signature: str | None) -> SpelledPart:
    return spelled if signature is None else {**spelled, "thoughtSignature": signature}


def _write_media(source: MediaSource, kind: str) -> SpelledPart:
    match source:
        case Base64Source(media_type=media_type, data=encoded):
            return {"inlineData": {"mimeType": media_type, "data": encoded}}
        case UrlSource(url=url, media_type=media_type):
            fetched: dict[str, Json] = {"fileUri": url}
            return {"fileData": fetched if media_type is None else fetched | _typed(media_type)}
        case FileIdSource(provider=provider, file_id=file_id):
            if provider == PROVIDER:
                return {"fileData": {"fileUri": file_id}}
            return {"text": tell_file(kind, source)}
        case _:
            assert_never(source)


def _typed(media_type: str) -> dict[str, Json]:
    return {"mimeType": media_type}


def _write_call(call: ToolCall) -> SpelledPart:
    known: SpelledPart = {
        **_id(call.call_id),
        "name": call.name,
        "args": arguments_to_write(call),
    }
    fields = {**known, **_inside(call, "function_call")}
    return _signed({"functionCall": fields, **_beside(call, "function_call")}, call.signature)


def _write_result(result: ToolResult, names_by_call: Mapping[str, str]) -> SpelledPart:
    texts: list[str] = []
    media: list[SpelledPart] = []
    for part in result.content:
        spelled = write_part(part, names_by_call) or {}
        if isinstance(part, Text) or set(spelled) == {"text"}:
            texts.append(spelled["text"])
        elif spelled:
            media.append(spelled)
    name = result.tool_name or names_by_call.get(result.call_id) or "unknown"
    response = spell_response(texts, is_error=result.is_error)
    fields: SpelledPart = {**_id(result.call_id), "name": name, "response": response}
    fields |= {"parts": media} if media else {}
    beside = _beside(result, "function_response")
    return {"functionResponse": fields | _inside(result, "function_response"), **beside}


def _id(call_id: str) -> dict[str, Json]:
    """Return the id as a field; none where the call came without, or with an empty one."""
    return {} if not call_id or _MADE_UP.fullmatch(call_id) else {"id": call_id}
