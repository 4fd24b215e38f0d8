"""Parts of one event as any provider can take them, each repair with an entry for the report."""

from collections.abc import Callable, Collection, Sequence
from operator import is_
from typing import Final

from context_assembler import events
from context_assembler.events import Body, JsonObject
from context_assembler.providers.wire import INVALID_JSON, NO_RESULT, clean_json, text_part, without
from context_assembler.report import Decision
from context_assembler.texts import clean_text

Parts = Sequence[JsonObject]
Log = Callable[[Decision, str, str], None]
"""Takes a decision, a rule and a sentence."""

OPENING: Final = "(The conversation begins with the assistant.)"
CONTINUE: Final = "Continue."


def missing_result(call: JsonObject) -> JsonObject:
    """Return the result that stands in for one that was never recorded."""
    content = [text_part(_refusal_of(call) or NO_RESULT)]
    answer = {"type": "tool_result", "call_id": call["call_id"], "content": content}
    return {**answer, "is_error": True, "tool_name": call["name"]}


def same_parts(parts: Parts, others: Parts) -> bool:
    """Whether both hold the same objects."""
    return len(parts) == len(others) and all(map(is_, parts, others))


def without_signature(part: JsonObject) -> JsonObject:
    """Return a part that says something by itself without its signature; itself if it has none."""
    if part.get("signature"):
        return without(part, "signature")
    if part["type"] == "opaque" and events.is_signed_block(part):
        return {**part, "block": without(part["block"], *events.THOUGHT_SIGNATURES)}
    return part


def unsigned(parts: Parts) -> list[JsonObject]:
    """Return the parts without signed reasoning, and without signatures on what they say."""
    return [without_signature(part) for part in parts if part["type"] != "thinking"]


def is_signed_by(parts: Parts, provider: str | None) -> bool:
    """Whether the parts hold reasoning that a provider signed; `None`: any provider."""
    signed = (p for p in parts if p["type"] == "thinking" and p.get("block") is not None)
    return any(provider in (None, part.get("provider")) for part in signed)


def _cleaned(part: JsonObject) -> JsonObject:
    """Return the part with clean text.

    A provider takes what it signed verbatim or not at all: what had to be cleaned has no signature
    any more, and signed thinking becomes readable text.
    """
    made: JsonObject = clean_json(part)
    if made is part:
        return part
    if part["type"] == "thinking" and made.get("block") != part.get("block"):
        return without(made, "block")
    return without_signature(made)


def _belongs(part: JsonObject, kind: int) -> bool:
    if kind == events.TOOL_RESULT:
        return bool(part["type"] == "tool_result")
    is_reply = kind in (events.ASSISTANT, events.TOOL_CALL)
    return is_reply or part["type"] not in ("tool_call", "thinking")


def repaired_parts(
    kind: int, parts: Parts, log: Log, *, objection: str | None = None, keeps_thoughts: bool = False
) -> Parts:
    """Return the parts of an event that can be sent; the same object if nothing is to be done.

    Results in a message of another kind stay: they have to find their calls.

    Args:
        objection: Why what a provider signed cannot be sent; `None`: it can.
        keeps_thoughts: Whether thoughts that nobody signed stay.
    """
    repairs: dict[str, str] = {}
    sent: list[JsonObject] = []
    for stored in parts:
        part = _cleaned(stored)
        if part is not stored:
            repairs["clean_text"] = "NULs or lone surrogates were cleaned away."
        if objection is not None and (bare := without_signature(part)) is not part:
            log("cleared", f"signature.{objection}", "")
            part = bare
        against = None
        if part["type"] == "thinking":
            against = "unsigned" if part.get("block") is None else objection
            against = None if keeps_thoughts else against
        if part["type"] == "text" and not part["text"].strip():
            repairs["blank"] = "Blank text was left out."
        elif not _belongs(part, kind):
            repairs["misplaced"] = "Parts that its author cannot write were taken out."
        elif against is not None:
            log("cleared", f"reasoning.{against}", "")
        else:
            sent.append(part)
    if not parts:
        repairs["empty"] = "The message was empty."
    elif not sent and not repairs:
        repairs["reasoning.empty"] = "Nothing was left of the message without its reasoning."
    for rule, said in repairs.items():
        log("repaired" if sent else "dropped", rule, said)
    return parts if same_parts(sent, parts) else sent


# ---- replies that a provider refused to give ----


def _says_nothing(part: JsonObject) -> bool:
    """Whether a part is blank, or a thought that nobody signed."""
    is_thought = part["type"] == "thinking" and part.get("block") is None
    return is_thought or (part["type"] == "text" and not part["text"].strip())


def is_refusal(kind: int, body: Body) -> bool:
    """Whether an event is a reply that its provider refused to give, or broke off for its content.

    So is one that ended without a word.
    """
    made_by: JsonObject = body.get("made_by") or {}
    stopped: str | None = made_by.get("stop_reason")
    is_empty = stopped is not None and all(map(_says_nothing, body["parts"]))
    is_reply = kind & events.KIND_MASK == events.ASSISTANT
    return is_reply and (is_empty or stopped in events.REFUSALS)


def parts_of_refusal(body: Body, log: Log, *, policy: str) -> Parts:
    """Return what is sent of such a reply."""
    stopped, is_empty = body["made_by"]["stop_reason"], all(map(_says_nothing, body["parts"]))
    refused = "The provider refused this reply" if stopped in events.REFUSALS else ""
    about = f"{refused or 'The reply was empty'} ({stopped})"
    if policy == "replace" or (policy == "keep" and is_empty):
        log("repaired", "refused", f"{about}; a line that says so stands in for it.")
        return [text_part(f"[{about}.]")]
    log("kept" if policy == "keep" else "dropped", "refused", f"{about}.")
    return body["parts"] if policy == "keep" else ()


# ---- calls ----


def settle_call(call: JsonObject, log: Log = lambda _did, _rule, _said: None) -> JsonObject:
    """Return a call with arguments that any provider takes.

    What is not a JSON object is the one argument of its call, next to the text that was written.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming
        (read 2026-11-30)
    """
    if not _refusal_of(call):
        return call
    about = f"The arguments of the call {call['call_id']!r}"
    log("repaired", "arguments", f"{about} are not a JSON object; they are sent as written.")
    return {**call, "arguments": {INVALID_JSON: call["arguments_json"]}}


def _refusal_of(call: JsonObject) -> str | None:
    return None if call.get("arguments") else events.error_of(call.get("arguments_json"))


# ---- calls that a provider runs itself ----


def pair_server_calls(
    parts: Parts, awaited: Collection[str] = (), *, done: Collection[str] = ()
) -> tuple[dict[str, JsonObject], set[str], list[JsonObject]]:
    """Return the server calls in parts by id, the ids answered there, and what has no place.

    An answer needs its call before it, and a call has one answer.

    Args:
        awaited: Earlier calls that may be answered.
        done: Calls that were answered before.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools (read 2026-11-27):
        a turn that paused is continued by sending it back as it is; a result needs its call
        before it.
    """
    asked, answered, odd = dict[str, JsonObject](), set[str](), list[JsonObject]()
    waiting = {*awaited}.difference(done)
    for part in parts:
        if not (name := server_id(part)):
            continue
        if _is_server_call(part):
            if name in asked or name in answered or name in done:
                odd.append(part)
            else:
                asked[name] = part
                waiting.add(name)
        elif name in waiting:
            waiting.remove(name)
            answered.add(name)
        else:
            odd.append(part)
    return asked, answered, odd


def _is_server_call(part: JsonObject) -> bool:
    return str(part["block"].get("type")).endswith("_tool_use")


def server_id(part: JsonObject) -> str:
    """Return the id of a server call, or of the call that a part answers; empty: neither."""
    if part["type"] != "opaque":
        return ""
    found = part["block"].get("id" if _is_server_call(part) else "tool_use_id")
    return clean_text(found) if isinstance(found, str) else ""
