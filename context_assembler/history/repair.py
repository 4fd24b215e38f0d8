"""Parts of one event as any provider can take them, each repair with an entry for the report."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Final

from context_assembler.errors import with_article
from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    NOTE,
    SYSTEM,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Json,
    JsonObject,
)
from context_assembler.providers.wire import NO_RESULT, parse_object
from context_assembler.report import Decision
from context_assembler.texts import clean_text

Parts = Sequence[JsonObject]
Log = Callable[[Decision, str, str], None]
"""Takes a decision, a rule and a sentence."""

OPENING: Final = "(The conversation begins with the assistant.)"
CONTINUE: Final = "Continue."

_ROLES: Final = {
    USER: "user",
    ASSISTANT: "assistant",
    TOOL_CALL: "assistant",
    TOOL_RESULT: "tool",
    COMPACTION: "user",
    SYSTEM: "system",
    NOTE: "system",
}


def text_part(text: str) -> JsonObject:
    """Return plain text as a part."""
    return {"type": "text", "text": text}


def missing_result(call: JsonObject) -> JsonObject:
    """Return the result that stands in for one that was never recorded."""
    return {
        "type": "tool_result",
        "call_id": call["call_id"],
        "content": [text_part(NO_RESULT)],
        "is_error": True,
        "tool_name": call["name"],
    }


def clean(value: Json) -> Json:
    """Return JSON without NULs and lone surrogates; the same object if there are none."""
    if isinstance(value, str):
        return clean_text(value)
    made: Json = value
    if isinstance(value, Mapping):
        made = {}
        for key, held in value.items():
            name = free = clean_text(key)
            for number in count(2):  # cleaning made two keys alike, and neither value may be lost
                if free not in made:
                    break
                free = f"{name}_{number}"
            made[free] = clean(held)
    elif isinstance(value, list | tuple):
        made = [clean(held) for held in value]
    return value if made == value else made


def is_gemini_signature(key: str) -> bool:
    """Whether a field of a Gemini block is its signature, in either spelling."""
    return key in ("thought_signature", "thoughtSignature")


def bears_signature(part: JsonObject) -> bool:
    """Whether a part that says something by itself is signed as well, as Gemini's are.

    https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
    """
    if part["type"] == "opaque":
        return part["provider"] == "gemini" and any(map(is_gemini_signature, part["block"]))
    return part.get("signature") is not None


def without_signature(part: JsonObject) -> JsonObject:
    """Return the part without the signature that it bears."""
    if part["type"] == "opaque":
        block = {k: v for k, v in part["block"].items() if not is_gemini_signature(k)}
        return {**part, "block": block}
    return {key: held for key, held in part.items() if key != "signature"}


def unsigned(parts: Parts) -> list[JsonObject]:
    """Return the parts without signed reasoning, and without signatures on what they say."""
    kept = (part for part in parts if part["type"] != "thinking")
    return [without_signature(part) if bears_signature(part) else part for part in kept]


def _cleaned(part: JsonObject) -> JsonObject:
    """Return the part with clean text.

    A provider takes what it signed verbatim or not at all: what had to be cleaned has no signature
    any more, and signed thinking becomes readable text.
    """
    made = clean(part)
    if made is part:
        return part
    if part["type"] == "thinking":
        kept = ("block",) if made.get("block") is not part.get("block") else ()
        return {key: held for key, held in made.items() if key not in kept}
    if part["type"] == "tool_result":
        made = {key: held for key, held in made.items() if key != "extras"}
    return without_signature(made) if bears_signature(made) else made


def _is_blank(part: JsonObject) -> bool:
    kind = part["type"]
    if kind == "text":
        return not part["text"].strip()
    is_thought = kind == "thinking" and part.get("block") is None
    return is_thought and not part.get("text", "").strip()


def _belongs(part: JsonObject, role: str) -> bool:
    if role == "assistant":
        return part["type"] != "tool_result"
    if role == "tool":
        return part["type"] == "tool_result"
    return part["type"] not in ("tool_call", "tool_result", "thinking")


def repaired_parts(kind: int, parts: Parts, log: Log) -> Parts:
    """Return the parts of an event that can be sent; the same object if nothing is to be done."""
    role = _ROLES[kind]
    if not parts:
        log("dropped", "empty", f"The {role} message was empty.")
        return parts
    made = [_cleaned(part) for part in parts]
    if any(a is not b for a, b in zip(made, parts, strict=True)):
        signed = sum(map(_is_sealed, parts)) - sum(map(_is_sealed, made))
        lost = f" {signed} signature(s) of what was cleaned are not sent." if signed else ""
        log("repaired", "clean_text", f"NULs or lone surrogates were cleaned away.{lost}")
    kept = [part for part in made if not _is_blank(part)]
    if len(kept) < len(made):
        what = "Blank text was left out." if kept else "The message held nothing but blank text."
        log("repaired" if kept else "dropped", "blank", what)
    own = _folded(kept) if role == "tool" else [part for part in kept if _belongs(part, role)]
    if len(own) < len(kept):
        said = with_article(role)
        reason = f"Parts that do not belong into {said} message were taken out of it."
        log("repaired" if own else "dropped", "misplaced", reason)
    if role == "assistant":
        own = _without_repeated_calls(own, log)
    is_same = len(own) == len(parts) and all(a is b for a, b in zip(own, parts, strict=True))
    return parts if is_same else own


def _is_sealed(part: JsonObject) -> bool:
    return bears_signature(part) or (part["type"] == "thinking" and part.get("block") is not None)


def _folded(parts: Iterable[JsonObject]) -> list[JsonObject]:
    """Return results alone; other parts join the result before them, or the first one."""
    results: list[JsonObject] = []
    loose: list[JsonObject] = []
    for part in parts:
        if part["type"] == "tool_result":
            held = [*loose, *part.get("content", ())]
            results.append({**part, "content": held} if loose else part)
            loose = []
        elif part["type"] not in ("tool_call", "thinking"):
            if results:
                held = [*results[-1].get("content", ()), part]
                results[-1] = {**results[-1], "content": held}
            else:
                loose.append(part)
    return results


def _asks_for(call: JsonObject) -> Json:
    return call["name"], call.get("arguments", {}), is_unread(call) and call["arguments_json"]


def _without_repeated_calls(parts: Parts, log: Log) -> list[JsonObject]:
    asked: dict[str, list[Json]] = {}
    kept: list[JsonObject] = []
    for part in parts:
        if part["type"] == "tool_call":
            alike = asked.setdefault(part["call_id"], [])
            if (asks := _asks_for(part)) in alike:
                reason = f"The call {part['call_id']!r} stood twice in one message."
                log("repaired", "repeated_call", reason)
                continue
            alike.append(asks)
        kept.append(part)
    return kept


# ---- calls ----


def is_unread(call: JsonObject) -> bool:
    """Whether the arguments, as the model wrote them, are no JSON object."""
    raw = call.get("arguments_json")
    return bool(raw) and not call.get("arguments") and parse_object(raw) is None


def settle_call(call: JsonObject, result: JsonObject, log: Log) -> tuple[JsonObject, JsonObject]:
    """Return a call with arguments that any provider takes, and its result.

    JSON inside JSON text is read once more. Of anything else no object can be made: the call has no
    arguments then, and its result begins with what was written.
    """
    if not is_unread(call):
        return call, result
    raw = call["arguments_json"]
    about = f"The arguments of the call {call['call_id']!r}"
    bare = {key: held for key, held in call.items() if key not in ("arguments", "arguments_json")}
    try:
        inner = json.loads(raw)
    except (ValueError, RecursionError):
        inner = None
    if isinstance(inner, str) and (arguments := parse_object(inner)) is not None:
        log("repaired", "arguments", f"{about} were JSON within JSON.")
        return {**bare, "arguments": arguments}, result
    reason = (
        f"{about} are no JSON object; it is sent without any, and its result tells what they were."
    )
    log("repaired", "arguments", reason)
    told = text_part(
        "[The arguments of this call are no JSON object, perhaps because they were cut off, so it is"
        f" shown without any. As they were written: {raw}]"
    )
    return bare, {**result, "content": [told, *result.get("content", ())]}


def distinct_ids(calls: Parts, log: Log) -> list[str]:
    """Return an id for each call of one message; different calls that share one are numbered."""
    taken = {call["call_id"] for call in calls}
    used: list[str] = []
    for call in calls:
        name = call["call_id"]
        if name in used:
            numbered = (f"{name}_{number}" for number in count(2))
            free = next(n for n in numbered if n not in used and n not in taken)
            log(
                "repaired",
                "shared_call_id",
                f"Two calls shared the id {name!r}; one became {free!r}.",
            )
            name = free
        used.append(name)
    return used


# ---- calls that a provider runs itself ----


def server_ids(parts: Parts, *, provider: str | None = None) -> tuple[set[str], set[str]]:
    """Return the ids of the server calls in parts, and of those that are answered there.

    Args:
        provider: Whose calls; `None`: anyone's.

    Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools (read 2026-11-27):
        a turn that paused is continued by sending it back as it is; a result needs its call
        before it.
    """
    asked, answered = set[str](), set[str]()
    for part in parts:
        if part["type"] == "opaque" and (found := server_id(part)):
            if is_server_call(part):
                if provider in (None, part["provider"]):
                    asked.add(found)
            else:
                answered.add(found)
    return asked, answered


def is_server_call(part: JsonObject) -> bool:
    """Whether an opaque part is a call, of a server tool (`server_tool_use`) or over MCP."""
    return str(part["block"].get("type")).endswith("_tool_use")


def server_id(part: JsonObject) -> str:
    """Return the id of a server call, or of the call that a part answers; empty: neither."""
    if part["type"] != "opaque":
        return ""
    found = part["block"].get("id" if is_server_call(part) else "tool_use_id")
    return found if isinstance(found, str) else ""
