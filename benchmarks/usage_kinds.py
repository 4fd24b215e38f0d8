"""What a recorded request holds, and what of it nobody can count offline."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from context_assembler.values.draft import Draft
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Document, Part, Text, Thinking, ToolCall
from context_assembler.values.reading import as_array, as_object, walk_objects

_MEDIA: Final[Mapping[str, str]] = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "document": "document",
    "file": "document",
    "input_file": "document",
    "input_audio": "audio",
}
_CARRIES: Final = ("source", "image_url", "file", "file_data", "file_id", "file_url", "input_audio")
_DECLARED: Final = ("functionDeclarations", "function_declarations")
_FIRST_SECOND: Final = 0x67_80_00_00  # January 2025; what is less is no time
_LAST_SECOND: Final = 0x67_EB_2C_00  # April 2025
_BY_ID: Final = ("previous_response_id", "conversation", "cachedContent", "prompt")


def kinds_of(request: Mapping[str, Any], *, provider: str) -> set[str]:
    """Return `text` alone, or what else the request holds."""
    found = {kind for kind, _ in _tool_kinds(request, provider)}
    for value in walk_objects({k: v for k, v in request.items() if k != "tools"}):
        kind = value.get("type")
        if isinstance(kind, str) and kind in _MEDIA and any(key in value for key in _CARRIES):
            found.add(_MEDIA[kind])
        if inline := as_object(value.get("inlineData") or value.get("inline_data")):
            found.add(_inline_kind(inline))
        if kind in ("thinking", "redacted_thinking", "reasoning") or "thoughtSignature" in value:
            found.add("thinking")
    return found or {"text"}


def _inline_kind(inline: Mapping[str, Any]) -> str:
    media = str(inline.get("mimeType") or inline.get("mime_type") or "")
    family = media.split("/", maxsplit=1)[0]
    return family if family in ("image", "audio", "video") else "document"


def _tool_kinds(request: Mapping[str, Any], provider: str) -> Iterator[tuple[str, str]]:
    """Yield for each tool whether it is the caller's own or the vendor's, and its type."""
    tools = request.get("tools") or request.get("functions")
    for tool in [tools] if is_object(tools) else as_array(tools):
        spec = as_object(tool)
        if provider == "gemini":
            for key in spec:
                yield ("tools", "") if key in _DECLARED else ("vendor tools", key)
        else:
            kind = str(spec.get("type") or "custom")
            own = "custom" if provider == "anthropic" else "function"
            yield ("tools", "") if kind in (own, "custom") else ("vendor tools", kind)
    if request.get("mcp_servers"):
        yield "vendor tools", "mcp"


def why_uncountable(recorded: Mapping[str, Any], *, provider: str) -> str | None:
    """Say what of a request the provider alone knows; `None` where nothing is hidden."""
    request = recorded["request"]
    text = json.dumps(request)
    hosted = sorted(kind for name, kind in _tool_kinds(request, provider) if name == "vendor tools")
    if "MASSIVE_TEXT" in text or "caching" in recorded["path"] or "cache" in recorded["path"]:
        return "the recording shortens what was sent"
    if "TestTokenCounts" in recorded["path"]:
        return "the recording's usage is made up"
    if any(request.get(key) for key in _BY_ID) or '"item_reference"' in text:
        return "text that the provider keeps (by id)"
    if any(
        key in text
        for key in (
            '"file_id"',
            '"fileData"',
            '"file_data": {"file_uri',
            "fileUri",
            "file_uri",
            "container",
        )
    ):
        return "files by id or address"
    if provider == "gemini" and _answers_another(request):
        return "a result under another name than its call's (no renderer of ours sends one)"
    if provider == "openai_responses":
        if _is_early(recorded):
            return "the first weeks of the Responses API (to March 2025), which added a prompt"
        if _keeps_reasoning(request):
            return "text that the provider keeps (reasoning by id)"
    if hosted:
        return f"the vendor's own tools ({', '.join(dict.fromkeys(hosted))[:40]})"
    if '"encrypted_content"' in text and '"compaction"' in text:
        return "a sealed compaction"
    if _asks_for_shape(request):
        return "an output schema (no option of ours sends one)"
    if '"url": "http' in text or '"image_url": "http' in text or '"file_url"' in text:
        return "media by address"
    if provider == "gemini" and ('"audio/' in text or '"video/' in text):
        return "sound or film"
    return None


def _asks_for_shape(request: Mapping[str, Any]) -> bool:
    shape = as_object(request.get("response_format")).get("type", "text")
    text = as_object(as_object(request.get("text")).get("format")).get("type", "text")
    config = as_object(request.get("generationConfig") or request.get("generation_config"))
    output = as_object(request.get("output_config")).get("format") or request.get("output_format")
    has_schema = any(config.get(key) for key in ("responseSchema", "responseJsonSchema"))
    return shape != "text" or text != "text" or bool(output) or has_schema


def why_estimated(draft: Draft, recorded: Mapping[str, Any], *, provider: str) -> str | None:
    """Say what of a request that could be counted is guessed by its length; `None`: nothing.

    Args:
        draft: The request without the reasoning of earlier turns.
    """
    parts = [part for message in draft.messages for part in message.parts]
    if any(_hides_reasoning(part) for part in parts):
        if "2.5" in draft.limits.id and "stream" in recorded["url"] and not draft.limits.host:
            return "sealed reasoning that Gemini 2.5 reads where the reply is streamed"
        return "sealed reasoning of the turn at hand, by its length"
    is_openai = draft.limits.provider == "openai"
    if is_openai and any(isinstance(part, Document) and part.text is None for part in parts):
        return "a document, by its pages: what OpenAI reads of one is not published"
    if provider == "openai_responses" and _replies_in_parallel(recorded):
        return "the reply holds parallel calls, and then the usage leaves the tools out"
    return None


def why_low(counter: str) -> str:
    """Say why a request of text alone is counted too low: nothing but its words can be unknown.

    Counted by a reconstruction of the vocabulary (`ctok`, as scripts/fit_estimator.py uses it), the
    requests to Claude that are listed come to the token: their frames are right.
    """
    if counter.startswith("~"):
        return "the vocabulary is not public, and the estimate of so few words does not even out"
    return "not known"


def _hides_reasoning(part: Part) -> bool:
    if isinstance(part, Thinking):
        return bool(as_object(part.block).get("encrypted_content"))
    return isinstance(part, Text | ToolCall) and bool(part.signature)


def _replies_in_parallel(recorded: Mapping[str, Any]) -> bool:
    reply = as_object(recorded.get("response"))
    output = [as_object(entry) for entry in as_array(reply.get("output"))]
    calls = [entry for entry in output if entry.get("type") == "function_call"]
    return len(calls) > 1 and "reasoning" not in [entry.get("type") for entry in output]


def _answers_another(request: Mapping[str, Any]) -> bool:
    parts = list(walk_objects({"contents": request.get("contents")}))
    called, answered = (
        {as_object(part.get(camel) or part.get(snake)).get("name") for part in parts} - {None}
        for camel, snake in (
            ("functionCall", "function_call"),
            ("functionResponse", "function_response"),
        )
    )
    return bool(called and answered - called)


def _is_early(recorded: Mapping[str, Any]) -> bool:
    """Whether a response was made before April 2025: its id begins with the second it was made in."""
    stamped = str(recorded.get("response_id") or "").removeprefix("resp_")[:8]
    try:
        return _FIRST_SECOND < int(stamped, 16) < _LAST_SECOND
    except ValueError:
        return False


def _keeps_reasoning(request: Mapping[str, Any]) -> bool:
    """Whether the turn at hand holds reasoning that the provider has, and the request does not."""
    entries = [as_object(entry) for entry in as_array(request.get("input"))]
    asked = [n for n, entry in enumerate(entries) if entry.get("role") == "user"]
    return any(
        entry.get("type") == "reasoning" and entry.get("id") and not entry.get("encrypted_content")
        for entry in entries[asked[-1] if asked else 0 :]
    )
