"""Which beta features a request uses, and the header that asks for them."""

from collections.abc import Iterator, Mapping
from typing import Final

from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text, objects_in

BETA_HEADER: Final = "anthropic-beta"

BETAS: Final[Mapping[str, frozenset[str]]] = {
    # https://platform.claude.com/docs/en/build-with-claude/compaction (read 2026-11-27)
    "compact-2026-01-12": frozenset({"edit compact_20260112", "block compaction"}),
    "compact-2026-09-04": frozenset({"parameter compaction", "signed block compaction"}),
    # https://platform.claude.com/docs/en/build-with-claude/context-editing (read 2026-11-27)
    "context-management-2025-06-27": frozenset(
        {"edit clear_tool_uses_20250919", "edit clear_thinking_20251015"}
    ),
    # https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
    "mid-conversation-tool-changes-2026-07-01": frozenset(
        {"block tool_addition", "block tool_removal"}
    ),
    "mid-conversation-system-clear-at-2026-08-21": frozenset({"message clear_at"}),
    "mid-conversation-output-config-2026-07-01": frozenset({"message output_config"}),
    "thinking-binding-controls-2026-08-01": frozenset({"thinking block_binding"}),
    # The anthropic package 2.14, docstrings of BetaRequestToolAdditionBlockParam,
    # BetaToolChangeToolDefinitionParam, BetaFallbackParam, MessageCreateParams (read 2026-11-27)
    "inline-tools-2026-09-15": frozenset({"added tool_definition"}),
    "mcp-client-2026-09-15": frozenset({"added mcp_toolset", "block mcp_tool_listing"}),
    "server-side-fallback-2026-07-01": frozenset({"parameter fallbacks", "block fallback"}),
    "fast-mode-2026-02-01": frozenset({"parameter speed"}),
    # The anthropic package 2.14, types that its beta methods alone have, each with the beta of its
    # name in AnthropicBetaParam (read 2026-11-27)
    "mcp-client-2025-11-20": frozenset(
        {"parameter mcp_servers", "tool mcp_toolset", "block mcp_tool_use", "block mcp_tool_result"}
    ),
    "files-api-2025-04-14": frozenset({"source file", "block container_upload"}),
    "task-budgets-2026-03-13": frozenset({"output_config task_budget"}),
    "message-threads-2026-08-12": frozenset({"parameter thread"}),
    "skills-2025-10-02": frozenset({"container skills"}),
    "advisor-tool-2026-03-01": frozenset({"tool advisor_20260301", "block advisor_tool_result"}),
    "computer-use-2024-10-22": frozenset({"tool computer_20241022"}),
    "computer-use-2025-01-24": frozenset({"tool computer_20250124"}),
    "computer-use-2025-11-24": frozenset({"tool computer_20251124"}),
}
"""Beta → what of a request needs it, in the words of `find_features`."""

# Fields of the request that are objects, with the fields in them that stand for a feature.
_INNER: Final = ("thinking", "output_config", "container")
_OF_SYSTEM_MESSAGES: Final = ("clear_at", "output_config")


def needed_betas(payload: JsonObject) -> list[str]:
    """Return the betas without which the API would refuse the payload, sorted."""
    return _betas_of(set(find_features(payload)))


def _betas_of(features: set[str]) -> list[str]:
    return sorted(beta for beta, needs in BETAS.items() if needs & features)


def asked_betas(payload: JsonObject) -> set[str]:
    """Return the betas that the payload asks for: in its header, or as the beta method's argument."""
    header = as_text(as_object(payload.get("extra_headers")).get(BETA_HEADER))
    names = [*header.split(","), *as_array(payload.get("betas"))]
    return {name.strip() for name in map(as_text, names) if name.strip()}


def add_beta_header(
    payload: dict[str, Json],
    *,
    known: frozenset[str] = frozenset(),
    places: slice = slice(0, 0),
) -> None:
    """Ask in place for the betas that the payload needs, beside the headers it has; for none else.

    `client.messages.create` takes the header, so that no other method of the SDK is needed.

    Args:
        known: What the messages at these places use, as `features_of_messages` finds it.
    """
    messages: list[Json] = payload["messages"]
    others = [*messages[: places.start], *messages[places.stop :]]
    needed = _betas_of({*find_features({**payload, "messages": others}), *known})
    if needed:
        names = sorted({*needed, *asked_betas(payload)})
        headers = as_object(payload.get("extra_headers"))
        payload["extra_headers"] = {**headers, BETA_HEADER: ",".join(names)}


def find_features(payload: JsonObject) -> Iterator[str]:
    """Yield what a request uses, as `kind name`; the same may come more than once."""
    body = {**payload, **as_object(payload.get("extra_body"))}
    for name, value in body.items():
        if value is not None:
            yield f"parameter {name}"
    for outer in _INNER:
        for name, value in as_object(body.get(outer)).items():
            if value is not None:
                yield f"{outer} {name}"
    for _, edit in objects_in(as_object(body.get("context_management")).get("edits")):
        yield f"edit {as_text(edit.get('type'))}"
    for _, tool in objects_in(body.get("tools")):
        yield f"tool {as_text(tool.get('type'))}"
    yield from features_of_messages(body.get("messages"))


def features_of_messages(messages: Json) -> Iterator[str]:
    """Yield what messages use."""
    for _, message in objects_in(messages):
        if message.get("role") == "system":
            for name in _OF_SYSTEM_MESSAGES:
                if message.get(name) is not None:
                    yield f"message {name}"
        yield from _of_blocks(message.get("content"))


def _of_blocks(content: Json) -> Iterator[str]:
    """Yield what the blocks use, those inside results and documents too."""
    waiting: list[Json] = [content]
    while waiting:
        for _, block in objects_in(waiting.pop()):
            kind = as_text(block.get("type"))
            yield f"signed block {kind}" if _is_signed_compaction(block) else f"block {kind}"
            source = as_object(block.get("source"))
            yield f"source {as_text(source.get('type'))}"
            if kind == "tool_addition":
                added = as_object(block.get("tool"))
                yield f"added {as_text(added.get('type'))}"
                yield f"added {as_text(as_object(added.get('definition')).get('type'))}"
            waiting += [block.get("content"), source.get("content")]


def _is_signed_compaction(block: JsonObject) -> bool:
    return block.get("type") == "compaction" and bool(block.get("signature"))
