"""How each provider is asked what a payload counts: which fields go along, what comes back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from context_assembler.values.context import Payload
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json

# What the endpoint takes of a Messages request.
# Source: anthropic 2.14.0, types/message_count_tokens_params.py;
# https://platform.claude.com/docs/en/build-with-claude/token-counting (both read 2026-11-27)
_ANTHROPIC_FIELDS: Final = (
    "messages",
    "model",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "cache_control",
    "output_config",
    "speed",
    "extra_headers",
    "betas",
)
# Source: openai 3.57.0, types/responses/input_token_count_params.py (read 2026-11-27)
_OPENAI_FIELDS: Final = (
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "conversation",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
    "truncation",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCall:
    """One provider's endpoint that counts tokens.

    Attributes:
        vendor: Whose client is needed.
        protocol: In which a request is rendered for it, a key of `PROVIDERS`.
        example: How such a client is made, for people.
        to_arguments: The keyword arguments, from a payload and the client.
        ask: Calls the client; what is awaitable is awaited.
        read: The number in the answer.
    """

    vendor: str
    protocol: str
    example: str
    to_arguments: Callable[[Payload, Any], Payload]
    ask: Callable[[Any, Payload], Any]
    read: Callable[[Any], Any]


def _anthropic_arguments(payload: Payload, _client: Any) -> Payload:
    return {name: payload[name] for name in _ANTHROPIC_FIELDS if name in payload}


def _ask_anthropic(client: Any, arguments: Payload) -> Any:
    resource = client.beta.messages if "betas" in arguments else client.messages
    return resource.count_tokens(**arguments)


def _openai_arguments(payload: Payload, _client: Any) -> Payload:
    return {name: payload[name] for name in _OPENAI_FIELDS if name in payload}


def _ask_openai(client: Any, arguments: Payload) -> Any:
    return client.responses.input_tokens.count(**arguments)


def _gemini_arguments(payload: Payload, client: Any) -> Payload:
    """Return what makes the SDK send instructions and tools along.

    The Developer API counts them in a `generateContentRequest`, which stands in place of the
    contents; the SDK has no argument for it, and refuses both in `config`. Vertex AI takes them
    there.

    Source:
        https://ai.google.dev/api/tokens (read 2026-11-27); google-genai 3.6.1, models.py
    """
    config = payload.get("config", {})
    http_options = dict(config.get("http_options", {}))
    if getattr(client, "vertexai", False):
        told = {name: config[name] for name in ("system_instruction", "tools") if name in config}
        return {
            "model": payload["model"],
            "contents": payload["contents"],
            "config": {**told, "http_options": http_options} if http_options else told,
        }
    request: dict[str, Json] = {
        "model": f"models/{payload['model'].removeprefix('models/')}",
        "contents": payload["contents"],
    }
    if (system := config.get("system_instruction")) is not None:
        is_text = isinstance(system, str)
        request["system_instruction"] = {"parts": [{"text": system}]} if is_text else system
    for name in ("tools", "tool_config"):
        if name in config:
            request[name] = config[name]
    body = {"generateContentRequest": request}
    options = {**http_options, "extra_body": body}
    return {"model": payload["model"], "contents": None, "config": {"http_options": options}}


def _ask_gemini(client: Any, arguments: Payload) -> Any:
    return client.models.count_tokens(**arguments)


def _field(name: str) -> Callable[[Any], Any]:
    def read(answer: Any) -> Any:
        return answer.get(name) if is_object(answer) else getattr(answer, name, None)

    return read


_OPENAI: Final = RemoteCall(
    vendor="openai",
    protocol="openai_responses",
    example="openai.AsyncOpenAI()",
    to_arguments=_openai_arguments,
    ask=_ask_openai,
    read=_field("input_tokens"),
)
REMOTE_CALLS: Final[Mapping[str, RemoteCall]] = {
    "anthropic": RemoteCall(
        vendor="anthropic",
        protocol="anthropic",
        example="anthropic.AsyncAnthropic()",
        to_arguments=_anthropic_arguments,
        ask=_ask_anthropic,
        read=_field("input_tokens"),
    ),
    "openai_responses": _OPENAI,
    "openai_chat": _OPENAI,
    "gemini": RemoteCall(
        vendor="google",
        protocol="gemini",
        example="google.genai.Client()",
        to_arguments=_gemini_arguments,
        ask=_ask_gemini,
        read=_field("total_tokens"),
    ),
}
