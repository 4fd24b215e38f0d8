"""Gemini's content parts as ours: what reading a reply and reading a transcript share.

Gemini spells its fields in two ways, `functionCall` on the wire and `function_call` in the SDK, and
real requests mix them. Both are read; what is kept verbatim keeps the spelling it came in. What
stands beside the text, the call or the response of a part is kept with it, as its extras.
"""

import re
from collections.abc import Sequence
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_arguments import read_arguments
from context_assembler.values.native.gemini_fields import KINDS, snake_fields, split_fields
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    UrlSource,
)
from context_assembler.values.reading import as_object, as_text
from context_assembler.values.wire import compact_json, parse_json_object

PROVIDER: Final = "gemini"

_READ_OF_TEXTS: Final = frozenset({"text", "thought", "thought_signature"})
_READ_OF_CALLS: Final = frozenset({"id", "name", "args", "partial_args"})
_READ_OF_CALL_PARTS: Final = frozenset({"function_call", "thought_signature"})
_RESERVED: Final = ({"output"}, {"error"}, set[str]())
_OWN_STORAGE: Final = re.compile(r"gs://|https?://generativelanguage\.googleapis\.com/")


def is_part(block: JsonObject) -> bool:
    """Whether a block can stand among the parts of a content; metadata of a reply cannot."""
    fields = snake_fields(block)
    return bool(KINDS & fields.keys() or "thought_signature" in fields)


def read_part(block: JsonObject, *, call_id: str) -> Part:
    """Return a part of a content; one that we do not interpret stays verbatim.

    Text that is signed but blank, and thoughts, are `Thinking`: a signature is never lost with the
    text it hangs on.

    Args:
        call_id: The id of a call that came without one.
    """
    fields = snake_fields(block)
    kinds = set(KINDS & fields.keys())
    signature = as_text(fields.get("thought_signature")) or None
    if kinds == {"function_call"}:
        return _read_call(block, as_object(fields["function_call"]), signature, call_id=call_id)
    if fields.get("thought") is True or (not kinds and signature):
        return _read_thought(block, fields, signature)
    if kinds == {"text"}:
        return _read_text(block, as_text(fields["text"]), signature)
    if len(kinds) == 1 and not fields.keys() - kinds:
        media = read_media(block)
        if media is not None:
            return media
    return Opaque(provider=PROVIDER, block=dict(block), text=readable_text(block))


def read_media(block: JsonObject) -> Image | Document | None:
    """Return inline or fetched bytes as an image or a document; `None` for any other.

    Recordings, films and files in Google's own storage are nobody else's to understand.
    """
    fields = snake_fields(block)
    inline = snake_fields(fields.get("inline_data"))
    if inline.keys() == {"mime_type", "data"}:
        encoded = standard_base64(as_text(inline["data"]))
        source = Base64Source(media_type=as_text(inline["mime_type"]), data=encoded)
        return _media(source, source.media_type)
    fetched = snake_fields(fields.get("file_data"))
    url, media_type = as_text(fetched.get("file_uri")), as_text(fetched.get("mime_type"))
    if fetched.keys() - {"file_uri", "mime_type"} or not url or _OWN_STORAGE.match(url):
        return None
    return _media(UrlSource(url=url, media_type=media_type or None), media_type)


def _media(source: Base64Source | UrlSource, media_type: str) -> Image | Document | None:
    if media_type.startswith("image/"):
        return Image(source=source)
    if media_type == "application/pdf":
        return Document(source=source)
    return Document(source=source) if media_type.startswith("text/") else None


def standard_base64(encoded: str) -> str:
    """Return base64 text in the standard alphabet, padded; the SDK writes the URL-safe one."""
    plain = encoded.replace("-", "+").replace("_", "/").rstrip("=")
    return plain + "=" * (-len(plain) % 4)


def _read_thought(block: JsonObject, fields: JsonObject, signature: str | None) -> Thinking:
    text = as_text(fields.get("text"))
    if signature is not None:
        return Thinking(text=text, provider=PROVIDER, block=dict(block))
    return Thinking(text=text, provider=PROVIDER, extras=_extras(block, _READ_OF_TEXTS))


def _read_text(block: JsonObject, text: str, signature: str | None) -> Part:
    if signature is not None and not text.strip():
        return Thinking(text=text, provider=PROVIDER, block=dict(block))
    return Text(text, extras=_extras(block, _READ_OF_TEXTS), signature=signature)


def _extras(block: JsonObject, known: frozenset[str]) -> dict[str, Json] | None:
    _, rest = split_fields(block, known)
    return {PROVIDER: rest} if rest else None


def nested_extras(
    block: JsonObject, key: str, *, known: frozenset[str], known_inside: frozenset[str]
) -> dict[str, Json] | None:
    """Return what stands beside what we read, in a part and in its object under `key`."""
    _, beside = split_fields(block, known)
    _, inside = split_fields(as_object(snake_fields(block).get(key)), known_inside)
    rest = {**beside, **({key: inside} if inside else {})}
    return {PROVIDER: rest} if rest else None


def _read_call(
    block: JsonObject, call: JsonObject, signature: str | None, *, call_id: str
) -> ToolCall:
    fields = snake_fields(call)
    read = read_arguments(call)
    return ToolCall(
        call_id=as_text(fields.get("id")) or call_id,
        name=as_text(fields.get("name")),
        arguments=read.arguments,
        arguments_json=read.spelled,
        extras=nested_extras(
            block, "function_call", known=_READ_OF_CALL_PARTS, known_inside=_READ_OF_CALLS
        ),
        signature=signature,
    )


def readable_text(block: JsonObject) -> str:
    """Return what another model can read of a part that we do not interpret."""
    fields = snake_fields(block)
    code = snake_fields(fields.get("executable_code"))
    if code:
        return f"```{as_text(code.get('language')).lower()}\n{as_text(code.get('code'))}\n```"
    ran = snake_fields(fields.get("code_execution_result"))
    if ran:
        return f"{as_text(ran.get('outcome'))}: {as_text(ran.get('output'))}"
    for kind in ("inline_data", "file_data"):
        media = snake_fields(fields.get(kind))
        if media:
            name = as_text(media.get("file_uri")) or as_text(media.get("display_name"))
            return f"[{' '.join(filter(None, (as_text(media.get('mime_type')), name)))}]"
    for kind in ("tool_call", "tool_response"):
        used = snake_fields(fields.get(kind))
        if used:
            held = used.get("args", used.get("response"))
            return f"[{kind} {as_text(used.get('tool_type'))} {compact_json(held)}]"
    return as_text(fields.get("text"))


def read_response(response: Json) -> tuple[tuple[Text, ...], bool]:
    """Return the texts of a function's response, and whether it is an error.

    What `spell_response` makes of them is read as the same texts again.
    """
    if not is_object(response):
        return _texts_of(response), False
    fields = dict(response)
    if fields.keys() == {"error"}:
        return _texts_of(fields["error"]), True
    if fields.keys() == {"output"}:
        return _texts_of(fields["output"]), False
    return ((Text(compact_json(fields)),) if fields else ()), False


def _texts_of(value: Json) -> tuple[Text, ...]:
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (Text(value),)
    if is_array(value) and len(value) > 1 and all(isinstance(entry, str) for entry in value):
        return tuple(map(Text, value))
    return (Text(compact_json(value)),)


def spell_response(texts: Sequence[str], *, is_error: bool) -> dict[str, Json]:
    """Return what a function answered as the object that the API takes.

    Text that is the compact JSON of an object is sent as that object; several texts are a list.

    Source:
        docstring of `google.genai.types.FunctionResponse`, google-genai 3.6 (read 2026-11-27):
        `output` and `error` are the keys to use; any other object is the output as a whole.
    """
    spelled: Json = list(texts) if len(texts) > 1 else "".join(texts)
    parsed = _compact_object(spelled)
    if is_error:
        return {"error": spelled if parsed is None else parsed}
    if parsed is None or parsed.keys() in _RESERVED:
        return {"output": spelled}
    return parsed


def _compact_object(value: Json) -> dict[str, Json] | None:
    if not isinstance(value, str) or not value.startswith("{"):
        return None
    parsed = parse_json_object(value)
    return parsed if parsed is not None and compact_json(parsed) == value else None
