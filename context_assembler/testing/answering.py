"""From a request body to the provider's answer, without the network."""

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import count
from typing import Final

from context_assembler.errors import UnknownModelError
from context_assembler.limits import get_model_limits
from context_assembler.ports import TokenCounter
from context_assembler.providers import PROVIDERS
from context_assembler.testing.prompt_cache import PromptCache
from context_assembler.testing.script import Script, ScriptedError, ScriptedReply
from context_assembler.testing.segments import (
    LeftOut,
    Segment,
    last_user_text,
    split_segments,
    sum_tokens,
)
from context_assembler.testing.signatures import find_left_out
from context_assembler.testing.traffic import PlacedReply, RefusedRequestError, SeenRequest, Wire
from context_assembler.tokens import counter_for
from context_assembler.values.events import Usage
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.wire import compact_json

_INVALID: Final = "invalid_request_error"


class Answerer:
    """Answers requests as providers do, and remembers them; safe to share between threads.

    Args:
        counter: Measures prompts; `None` uses the counter of each request's model.
        today: Against which dated rules are checked; `None` holds to the newest.
    """

    def __init__(
        self, script: Script, *, counter: TokenCounter | None = None, today: date | None = None
    ) -> None:
        self.seen: list[SeenRequest] = []
        self.counted: list[JsonObject] = []
        self._script = script
        self._counter = counter
        self._today = today
        self._cache = PromptCache()
        self._numbers = count(1)

    def answer(self, wire: Wire, body: JsonObject, headers: Mapping[str, str]) -> JsonObject:
        """Return the reply as JSON.

        Raises:
            RefusedRequestError: The provider would answer with an error.
        """
        try:
            placed = self._play(wire, body, headers)
        except RefusedRequestError as refused:
            self._remember(wire, body, headers, status=refused.status, refusal=refused.message)
            raise
        self._remember(wire, body, headers, usage=placed.usage, left_out=placed.left_out)
        return wire.render_reply(placed)

    def count(self, body: JsonObject) -> int:
        """Return the tokens of a prompt.

        Raises:
            RefusedRequestError: The model is unknown.
        """
        limits = _limits_of(body)
        counter = self._counter or counter_for(limits)
        self.counted.append(body)
        return sum_tokens(split_segments(body, counter=counter), counter=counter)

    def _play(self, wire: Wire, body: JsonObject, headers: Mapping[str, str]) -> PlacedReply:
        limits = _limits_of(body)
        self._check_rules(wire, wire.to_arguments(body, headers), limits)
        counter = self._counter or counter_for(limits)
        told = wire.to_messages(body)
        segments = split_segments(told, counter=counter)
        input_tokens = sum_tokens(segments, counter=counter)
        window_tokens = limits.input_tokens or limits.window_tokens
        if input_tokens > window_tokens:
            raise wire.refuse_overlong(input_tokens, window_tokens)
        if objection := wire.find_objection(segments, limits):
            raise RefusedRequestError(status=400, kind=_INVALID, message=objection)
        reply = self._next_reply(heard=last_user_text(told))
        cached = wire.use_cache(self._cache, segments, body=body, limits=limits)
        usage = Usage(
            input_tokens=input_tokens,
            output_tokens=_reply_tokens(reply, counter),
            cache_read_tokens=cached.cache_read_tokens,
            cache_write_tokens=cached.cache_write_tokens,
            reasoning_tokens=counter.count_text(reply.thinking or ""),
        )
        return self._place(reply, limits, body, segments, usage)

    def _place(
        self,
        reply: ScriptedReply,
        limits: ModelLimits,
        body: JsonObject,
        segments: list[Segment],
        usage: Usage,
    ) -> PlacedReply:
        number = next(self._numbers)
        return PlacedReply(
            number=number,
            reply=reply,
            limits=limits,
            body=body,
            segments=segments,
            usage=usage,
            left_out=find_left_out(segments, limits=limits),
        )

    def _check_rules(self, wire: Wire, arguments: JsonObject, limits: ModelLimits) -> None:
        check = PROVIDERS[wire.provider].check_payload
        violations = check(arguments, limits=limits, today=self._today)
        refused = [violation for violation in violations if violation.level == "refused"]
        if refused:
            first = refused[0]
            message = f"{first.where}: {first.message} [{first.rule}]"
            raise RefusedRequestError(status=400, kind=_INVALID, message=message)

    def _next_reply(self, *, heard: str) -> ScriptedReply:
        line = self._script.next_line(heard=heard)
        match line:
            case ScriptedReply():
                return line
            case ScriptedError():
                raise RefusedRequestError(status=line.status, kind=line.kind, message=line.message)
            case None:
                raise RefusedRequestError(
                    status=400, kind=_INVALID, message="The script of this test has no line left."
                )

    def _remember(
        self,
        wire: Wire,
        body: JsonObject,
        headers: Mapping[str, str],
        *,
        status: int = 200,
        refusal: str | None = None,
        usage: Usage | None = None,
        left_out: Sequence[LeftOut] = (),
    ) -> None:
        seen = SeenRequest(
            provider=wire.provider,
            body=body,
            headers=headers,
            status=status,
            refusal=refusal,
            usage=usage,
            left_out=left_out,
        )
        self.seen.append(seen)


def _limits_of(body: JsonObject) -> ModelLimits:
    model: Json = body.get("model")
    if not isinstance(model, str) or not model:
        raise RefusedRequestError(status=400, kind=_INVALID, message="model: Field required")
    try:
        return get_model_limits(model)
    except UnknownModelError as unknown:
        raise RefusedRequestError(
            status=404, kind="not_found_error", message=f"model: {model}", code="model_not_found"
        ) from unknown


def _reply_tokens(reply: ScriptedReply, counter: TokenCounter) -> int:
    calls = "".join(f" {call.name} {compact_json(call.arguments)}" for call in reply.tool_calls)
    return counter.count_text(f"{reply.thinking or ''} {reply.text}{calls}")
