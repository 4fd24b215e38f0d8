"""What a recorded request holds, and what of it nobody can count offline."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from context_assembler.values.json_shapes import is_object
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
