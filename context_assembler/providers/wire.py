"""What every provider writes payloads with: clean text, names and ids, tools, adapted parts, replies."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b, sha256
from math import inf, nan
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from context_assembler.context import Request
from context_assembler.errors import ReplyError, UnsupportedRequestError
from context_assembler.events import (
    Json,
    JsonObject,
    Usage,
    broken_bound,
    compact_json,
    dump_json,
    read_object_text,
)
from context_assembler.ports import ToolPlan, ToolSearch, ToolSpec, Turn
from context_assembler.report import Decision, ReportEntry, Rule, Violation
from context_assembler.texts import FORGED, REMINDER_TAG, SUMMARY_TAG, clean_text, escape_tag, fence

NO_OUTPUT: Final = "(no output)"
NO_RESULT: Final = "No result was recorded for this call; it may or may not have run."
INVALID_JSON: Final = "INVALID_JSON"  # the argument that holds text which is not a JSON object
MEDIA: Final = ("image", "document")  # types of parts
NO_SYSTEM_AUTHORITY: Final = frozenset({"memory", "tool", "file"})  # origins


# ---- text and JSON ----


def plain_json(value: Json) -> Json:
    """Return a deep copy whose text is clean."""
    if isinstance(value, str):
        return clean_text(value)
    inside: Any = value
    if isinstance(value, Mapping):
        return {clean_text(str(key)): plain_json(held) for key, held in inside.items()}
    return [plain_json(held) for held in inside] if isinstance(value, list | tuple) else value


def clean_json(value: Json) -> Json:
    """Return the value if its text is clean, else a clean copy."""
    with suppress(UnicodeDecodeError):
        if "\\u0000" not in dump_json(value).decode():
            return value
    made = plain_json(value)
    return value if made == value else made


def without_nulls(fields: JsonObject) -> dict[str, Json]:
    """Return the fields that hold something: a null instead of a field is refused or ignored."""
    return {key: value for key, value in fields.items() if value is not None}


def without(fields: JsonObject, *names: str) -> dict[str, Json]:
    """Return the other fields."""
    return {key: value for key, value in fields.items() if key not in names}


def as_object(value: Json) -> dict[str, Json]:
    """Return the object; an empty one for anything else."""
    given: Any = value
    return given if given.__class__ is dict else dict(given) if isinstance(value, Mapping) else {}


def as_list(value: Json) -> Sequence[Json]:
    """Return the list; an empty one for anything else."""
    given: Sequence[Json] = value
    return given if isinstance(value, list | tuple) else ()


def as_text(value: Json) -> str:
    """Return the text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def objects_in(value: Json) -> list[dict[str, Json]]:
    """Return the objects in a list; none for anything else."""
    return [held for held in as_list(value) if isinstance(held, dict)]


def own_extras(part: JsonObject, provider: str) -> dict[str, Json]:
    """Return the provider's fields of a part that have no place in the part itself."""
    extras = part.get("extras")
    return as_object(extras.get(provider)) if extras else {}


def parse_object(text: str) -> dict[str, Json] | None:
    """Return the object that JSON text holds; `None` if it holds none that can be stored."""
    return read_object_text(text)[0]


def arguments_text(call: JsonObject, *, is_own: bool) -> str:
    """Return a call's arguments as JSON text: the model's own text if its server takes that.

    OpenAI takes text that is not a JSON object back; other servers parse what they get.

    Source:
        https://github.com/openai/openai-openapi, ChatCompletionMessageToolCall.function.arguments
        https://github.com/sgl-project/sglang/pull/28035 (read 2026-11-30)
    """
    raw: str | None = call.get("arguments_json")
    if raw and (is_own or parse_object(raw) is not None):
        return raw if raw.isascii() else clean_text(raw)
    return compact_json(plain_json(call.get("arguments", {})))


def text_argument(call: JsonObject) -> str:
    """Return the one argument, text, of a call of a custom tool."""
    arguments = plain_json(call.get("arguments", {}))
    given = arguments.get("input")
    return given if isinstance(given, str) else compact_json(arguments)


def said(text: str) -> str:
    """Return clean text; empty if it is blank, which every provider refuses or ignores."""
    text = clean_text(text)
    return "" if text.isspace() else text


def text_of(parts: Iterable[JsonObject]) -> str:
    """Return the texts that are not blank, joined by line breaks; of opaque parts their text."""
    texts = (p.get("text") or "" for p in parts if p["type"] in ("text", "opaque"))
    return "\n".join(text for text in texts if text.strip())


def mark_failure(text: str) -> str:
    """Return what a failed tool said, marked as an error, for protocols without a flag."""
    return f"ERROR: {text or 'the tool failed without saying why'}"


# ---- rules ----

# Rule – with `?` if it merely harms –, where, message.
Found: TypeAlias = tuple[str, str, str]


def sources_of(text: str) -> dict[str, str]:
    """Return rule → where it is written; entries end with `|`, one may be that of several rules."""
    entries = (entry.strip().partition(": ") for entry in text.split("|"))
    return {name: source for names, _, source in entries for name in names.split()}


def violations(found: Iterable[Found], sources: Mapping[str, str]) -> list[Violation]:
    """Return what a checker found, with the sources of the rules."""
    made: list[Violation] = []
    for rule, where, message in found:
        level: Any = "advice" if rule[-1] == "?" else "refused"
        name = rule.rstrip("?")
        made.append(Violation(name, level, where, message, f"{sources[name]} (read 2026-11-27)"))
    return made


def as_number(value: Json) -> float:
    """Return a number; NaN, which compares to nothing, for anything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else nan


# ---- names and ids ----


class NameRule(NamedTuple):
    """Which names a provider takes, and how any other name is changed.

    Attributes:
        pattern: What a whole name must match.
        max_chars: The longest name made here.
        keeps_prefix: Whether the readable start stays before the digest that closes a changed name.
        opening: Put before a changed name that does not begin with a letter.
    """

    pattern: re.Pattern[str]
    max_chars: int
    keeps_prefix: bool = True
    opening: str = ""

    def change(self, name: str, attempt: int = 0) -> str:
        """Return a name that the provider takes; a function of the arguments alone."""
        seed = f"{name}\0{attempt}" if attempt else name
        digest = sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
        if not self.keeps_prefix:
            return digest[: self.max_chars]
        readable = re.sub(r"[^a-zA-Z0-9_-]+", "_", name) or "x"
        if not readable[0].isalpha():
            readable = self.opening + readable
        return f"{readable[: self.max_chars - 11]}_{digest[:10]}"


class WireNames(dict[str, str]):
    """Every tool's name → its name on the wire, one to one; a name not yet known gets one."""

    def __init__(self, request: Request, rule: NameRule, provider: str) -> None:
        specs = ((tool.name, tool.native_specs.get(provider)) for tool in known_tools(request))
        super().__init__({own: name for own, spec in specs if spec and (name := tool_name(spec))})
        self._rule = rule
        for tool in known_tools(request):
            if not tool.native_specs:
                self[tool.name]

    def __missing__(self, name: str) -> str:
        sent, attempt = name, 0
        if not self._rule.pattern.fullmatch(name):
            sent = self._rule.change(name)
            while sent in self.values():
                attempt += 1
                sent = self._rule.change(name, attempt)
        self[name] = sent
        return sent


def own_names(request: Request | None, rule: NameRule, provider: str) -> dict[str, str]:
    """Return the names on the wire → the tools' own; none without a request."""
    names: dict[str, str] = {} if request is None else WireNames(request, rule, provider)
    return {sent: name for name, sent in names.items()}


def tool_name(spec: JsonObject) -> str:
    """Return the name that a tool of an API's own goes by; empty if it has none."""
    inner = as_object(spec.get(as_text(spec.get("type"))))
    return as_text(inner.get("name", spec.get("name")))


class CallIds:
    """Gives each call an id of its own on the wire, and each result the id of its call.

    An id that the provider takes and that stands for one call only is kept; a repeated one is
    changed at each further use. An id depends on the turns before it alone.
    """

    def __init__(self, rule: NameRule) -> None:
        self._rule = rule
        self._takes = rule.pattern.fullmatch
        self._used: set[str] = set()
        self._sent: dict[str, list[str]] = {}  # by id, what each of its uses became
        self._order: list[str] = []
        self._open: dict[str, list[str]] = {}
        self._is_answered = False  # a result came since the last call

    def of_calls(self, call_ids: Sequence[str]) -> list[str]:
        """Return the ids of one reply's calls, or of more of them if no result stood between.

        Results of earlier replies are not awaited further.
        """
        if self._is_answered:
            self._open, self._is_answered = {}, False
        sent_ids: list[str] = []
        for call_id in call_ids:
            earlier = self._sent.setdefault(call_id, [])
            sent, attempt = call_id, len(earlier)
            if earlier or sent in self._used or not self._takes(sent):
                while (sent := self._rule.change(call_id, attempt)) in self._used:
                    attempt += 1
            self._used.add(sent)
            self._order.append(call_id)
            earlier.append(sent)
            self._open.setdefault(call_id, []).append(sent)
            sent_ids.append(sent)
        return sent_ids

    def of_result(self, call_id: str) -> str:
        """Return the id of the call that a result answers."""
        self._is_answered = True
        if waiting := self._open.get(call_id):
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return call_id if self._takes(call_id) else self._rule.change(call_id)

    def mark(self) -> object:
        """Return what `reset` goes back to."""
        open_ids = {key: [*ids] for key, ids in self._open.items()}
        return len(self._order), open_ids, self._is_answered

    def reset(self, mark: Any) -> None:
        """Forget the calls after the mark."""
        count, self._open, self._is_answered = mark
        while len(self._order) > count:
            self._used.discard(self._sent[self._order.pop()].pop())


# ---- payloads that belong to their caller ----


def fresh_json(value: Json) -> Json:
    """Return a copy whose dicts and lists nobody else holds; text is shared."""
    kind: object = value.__class__
    if kind is dict:
        return {k: v if v.__class__ is str else fresh_json(v) for k, v in value.items()}
    return [fresh_json(held) for held in value] if kind is list or kind is tuple else value


class LentList(list[Any]):
    """A list that copies its elements, deeply, once somebody reads or changes it.

    A payload belongs to its caller, but most of it is the same at every step of a session. So each
    payload gets a list of the rendered messages, and copies of them if it is used: whatever the
    caller changes stays in that payload.
    """

    _is_own = False

    def take(self) -> None:
        """Copy the elements, unless that has happened."""
        if not self._is_own:
            self._is_own = True
            super().__setitem__(slice(None), [fresh_json(held) for held in super().__iter__()])

    def lend(self, start: int) -> list[Any]:
        """Return the elements from one on, shared."""
        return super().__getitem__(slice(start, None))

    def __radd__(self, before: list[Any]) -> list[Any]:
        """Return a plain list of both: by itself, `+` would read past `take`."""
        return [*before, *self]


# Whatever hands out an element or puts one in; `json` and `pickle` iterate.
_USES: Final = (
    "__add__ __delitem__ __getitem__ __iadd__ __iter__ __mul__ __reversed__ __rmul__ __setitem__ "
    "append clear copy extend insert pop remove reverse sort".split()
)


def _taking(name: str) -> Callable[..., Any]:
    use: Callable[..., Any] = getattr(list, name)

    def used(self: LentList, *args: Any, **named: Any) -> Any:
        self.take()
        return use(self, *args, **named)

    return used


for _name in _USES:
    setattr(LentList, _name, _taking(_name))


def peek(value: Json, start: int = 0) -> list[Any]:
    """Return the elements of a list from one on, shared, to be read only; none of anything else."""
    held: Any = value
    if isinstance(value, LentList):
        return value.lend(start)
    return list(held[start:]) if isinstance(value, list | tuple) else []


# ---- messages that grow ----

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class GrownWire:
    """The messages of one request, grown turn by turn; each provider's `Wire` renders the turns.

    An element that was in `messages` is never changed: a merge replaces the last one. `write` returns
    keyword arguments for the SDK, plain JSON that belongs to the caller; an `UnsupportedRequestError`
    if the API cannot express the request for this model.

    What counts for the prefix hash goes to `_units`: what is rendered, without reasoning,
    before neighbours merge. `_restart` is the first unit that counts, if a provider's compaction
    stands for whatever was before it.
    """

    name: ClassVar[str]  # the provider
    _names_files: ClassVar[bool] = False  # whether a file's name is sent next to its bytes
    tools: list[Any]
    _head: Callable[[], Json]  # what is hashed before all turns
    _media_rules: Callable[[], Any]  # what the model takes of images and documents
    # Why a block of the provider's own would be refused, half a sentence; `None`: it would not.
    _flaw_of: Callable[[JsonObject, str], str | None]
    # What a provider does with a turn; a message without content is not appended.
    _add_reply: Callable[[Turn], None]
    _add_results: Callable[[Turn], None]
    _say: Callable[[str, Any], None]
    _text_piece: Callable[[str], dict[str, Json]]
    _media_piece: Callable[[JsonObject], dict[str, Json]]

    def __init__(self, request: Request, names: NameRule, ids: NameRule) -> None:
        self.request = request
        self.names = WireNames(request, names, self.name)
        self.messages: list[dict[str, Json]] = []
        self.entries: list[ReportEntry] = []
        self._ids = CallIds(ids)
        self._units: list[Json] = []
        self._restart = 0
        self._hash: tuple[int, int, Any] = (-1, 0, None)  # of the units from one up to another
        self._is_hashed = False
        self.ends = inf  # when something in `messages` expires, as a POSIX time: render them again

    def know_calls(self, call_ids: Sequence[str]) -> None:
        """Take no id for a call that one before these messages has."""
        self._ids.of_calls(call_ids)
        self._ids.of_result("")

    def add(self, turn: Turn) -> None:
        """Append a turn; an assistant turn with calls is followed by the turn of their results."""
        role = turn["role"]
        if role == "assistant":
            self._add_reply(turn)
        if any(part["type"] == "tool_result" for part in turn["parts"]):
            self._add_results(turn)
        if turn.get("kind") == "summary":
            self._add_summary(turn)
        elif role == "user":
            self._add_user(settle_parts(turn, self._settle, self.entries))
        elif role == "system":
            self._add_instructions(turn)

    def _add_summary(self, turn: Turn) -> None:
        self._add_user([text_part(self.summary_text(turn))])

    def _add_user(self, parts: Iterable[JsonObject]) -> None:
        self._say("user", [piece for part in parts for piece in self._pieces(part)])

    def _add_instructions(self, turn: Turn) -> None:
        """Append late instructions, for a provider that has no role for them."""
        self._add_fenced(turn, settle_parts(turn, self._settle, self.entries))

    def _add_fenced(self, turn: Turn, parts: Sequence[JsonObject]) -> None:
        text = text_of(parts)
        said = [text_part(self.fenced(turn, text))] if text else []
        self._add_user([*said, *(part for part in parts if part["type"] in MEDIA)])

    def _pieces(self, part: JsonObject) -> list[dict[str, Json]]:
        """Return the pieces of content that a part becomes; blank text vanishes.

        A document is a file, or its text; before a file what no field says of it.
        """
        kind, told = part["type"], part.get("text")
        if kind == "opaque" and part["provider"] == self.name:
            return [self._own_piece(part["block"])]
        made: list[Any] = []
        if is_attachment(part):
            made, told = [self._media_piece(part)], None
        if kind == "document":
            from context_assembler.providers.media import about_document, document_text

            has_title = part["source"]["type"] == "base64" and self._names_files
            told = about_document(part, has_title=has_title) if made else document_text(part)
        elif kind in ("text", "opaque"):
            told = said(told or "")
        return [*([self._text_piece(told)] if told else ()), *made]

    def _own_piece(self, block: JsonObject) -> dict[str, Json]:
        """Return a block of the provider's own as a piece of content."""
        return without_nulls(as_object(plain_json(block)))

    def _settle(self, part: JsonObject, role: str, changes: "list[Change]") -> list[JsonObject]:
        """Return what is sent for a part of a message, or of a result."""
        if part["type"] in MEDIA:
            from context_assembler.providers.media import settle_media

            limits = self.request.limits
            return settle_media(part, role, changes, rules=self._media_rules(), limits=limits)
        if part["type"] != "opaque" or part["provider"] == "context-assembler":
            return [part]
        flaw = self._flaw_of(part["block"], role) if part["provider"] == self.name else ""
        if flaw is not None:
            return self._put_in_words(part, role, changes, flaw)
        return self._adapt(part, changes)

    def _put_in_words(
        self, part: JsonObject, role: str, changes: "list[Change]", flaw: str
    ) -> list[JsonObject]:
        """Return what is sent for a block that the provider cannot take: its text, or a line.

        Args:
            flaw: Why the provider refuses a block of its own, in half a sentence.
        """
        owner, kind, text = part["provider"], part["block"].get("type"), part.get("text", "")
        block = f"of {owner}" + (f" ({kind:.40})" if isinstance(kind, str) else "")
        from context_assembler.providers.media import media_in

        kept = [*media_in(part["block"], owner)]
        is_label = kept and re.fullmatch(r"\s*\[[\w./+-]*\]\s*", text)  # names the block, no more
        if text.strip() and not is_label:
            kept.insert(0, text_part(text))
        why = flaw or "another provider made it"
        rule: Rule = "content.malformed" if owner == self.name else "content.foreign"
        did: Decision = "repaired" if kept else "dropped"
        told = "sent as text, with the media in it" if kept else "left out"
        changes.append(Change(did, rule, f"A block {block} is {told}: {why}."))
        if not kept and role != "assistant":
            return [text_part(f"[block {block} left out: {flaw or 'it has no text'}]")]
        settled = ([p] if p["type"] == "text" else self._settle(p, role, changes) for p in kept)
        return [one for parts in settled for one in parts]

    def _adapt(self, part: JsonObject, _changes: "list[Change]") -> list[JsonObject]:
        """Return what is sent for a sound block of the provider's own."""
        return [part]

    def fenced(self, turn: Turn, text: str, *, tag: str = REMINDER_TAG) -> str:
        """Return a note between tags with the session's nonce, that nothing in it can close."""
        if escape_tag(tag, text) != text:
            self.entries += turn_entries(turn, [Change("repaired", "text.tag", FORGED)])
        return clean_text(fence(tag, text, nonce=self.request.nonce))

    def summary_text(self, turn: Turn) -> str:
        """Return a summary between tags; a provider's compaction without text as its words."""
        told = "\n".join(p["text"] for p in turn["parts"] if p["type"] == "text")
        return self.fenced(turn, told or text_of(turn["parts"]), tag=SUMMARY_TAG)

    def settled(self, role: str, parts: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Return the parts as the provider can take them, for whoever counts them."""
        turn: Any = {"role": role, "parts": parts}
        return settle_parts(turn, self._settle, [])

    def refusal(self, problem: str, remedy: str) -> UnsupportedRequestError:
        """Return the error for what the API cannot express."""
        model = self.request.limits.id
        return UnsupportedRequestError(problem, provider=self.name, model=model, remedy=remedy)

    def unthinking_refusal(self) -> UnsupportedRequestError:
        """Return the error for a model that always thinks."""
        remedy = "Leave thinking_level and thinking_budget out, or use the lowest level."
        return self.refusal("its thinking cannot be switched off", remedy)

    def leave_history(self, request: Request, *names: Rule) -> None:
        """Report what others do with the history, and this API cannot.

        Raises:
            UnsupportedRequestError: A compaction is wanted instead of a reply.
        """
        for rule in names:
            name = rule.removeprefix("parameter.")
            asked = getattr(request.parameters, name)
            if asked == "now":
                remedy = "Leave provider_compaction out, and use compact()."
                raise self.refusal("it cannot compact a conversation", remedy)
            if asked:
                self.report(name, "This API cannot do that; the history is sent as it is.", rule)

    def stops(self, request: Request, *, most: int) -> list[str]:
        """Return the stop sequences.

        Raises:
            UnsupportedRequestError: There are too many.
        """
        given = request.parameters.stop_sequences
        if len(given) > most:
            problem = f"it takes at most {most} stop sequences, not {len(given)}"
            raise self.refusal(problem, f"Keep the {most} most telling ones.")
        return list(map(clean_text, given))

    def report(self, name: str, reason: str, rule: Rule, decision: Decision = "dropped") -> None:
        """Add an entry about a setting, once."""
        entry = ReportEntry("note", name, decision, reason=reason, rule=rule)
        if entry not in self.entries:
            self.entries.append(entry)

    def declared_tools(self, entries: list[ReportEntry]) -> list[ToolSpec]:
        """Return the tools that stand before the history for this provider, in order.

        Args:
            entries: Gets one for each tool that is left out.
        """
        plan: ToolPlan | None = self.request.tool_plan
        tools: Sequence[ToolSpec] = self.request.tools
        if plan is not None:
            tools = plan.declared if plan.provider == self.name else plan.offered
        kept: list[ToolSpec] = []
        for tool in tools:
            reason = f"It exists for {', '.join(sorted(tool.native_specs))} alone."
            if self.name in tool.native_specs:
                reason = self._flaw_of_tool(tool)
            if tool.native_specs and reason:
                entries.append(tool_entry(tool, "tool.native", reason))
            else:
                kept.append(tool)
        return kept

    def _flaw_of_tool(self, _tool: ToolSpec) -> str:
        """Return why a tool of the provider's own is refused, as a sentence; empty: it is not."""
        return ""

    def check_forced(self, request: Request, offered: Collection[str]) -> None:
        """Refuse a forced call that the provider could not make.

        Raises:
            UnsupportedRequestError: The tool that must be called is not offered, or none is.
        """
        choice = request.parameters.tool_choice
        name = choice.name if choice is not None else None
        if name is not None and name not in offered:
            problem = f"tool_choice names {name!r}, which is not offered"
            raise self.refusal(problem, "Name one of the tools, or use mode 'auto'.")
        if not offered:
            raise self.refusal("a call is forced, but no tool is offered", "Add a tool.")

    def mark(self) -> object:
        """Return what `reset` goes back to."""
        if self._is_hashed:
            self.prefix()
        counts = len(self.messages), len(self.entries), len(self._units)
        return counts, self._restart, self._hash, self.messages[-1:], self._ids.mark()

    def reset(self, mark: Any) -> None:
        """Forget the turns that were added after the mark."""
        (messages, entries, units), self._restart, self._hash, last, ids = mark
        self.messages[max(messages - 1, 0) :] = last
        del self.entries[entries:], self._units[units:]
        self._ids.reset(ids)

    def prefix(self) -> str:
        """Return the hash of system prompt, tools and all added turns.

        Cache marks and reasoning are not part of it. Once it was asked for, `mark` keeps it as well.
        """
        self._is_hashed = True
        start, end, state = self._hash
        if start != self._restart:
            start = end = self._restart
            state = blake2b(_encode(self._head()).encode(), digest_size=16)
        if end < len(self._units):
            state = state.copy()
            state.update((_encode(self._units[end:])[1:-1] + ",").encode())
        self._hash = start, len(self._units), state
        digest: str = state.hexdigest()
        return digest


# ---- tools ----


def plan_of(request: Request, provider: str) -> ToolPlan | None:
    """Return how the provider learns of changed tools; `None`: it is sent all of them."""
    plan: ToolPlan | None = request.tool_plan
    return plan if plan is not None and plan.provider == provider else None


def known_tools(request: Request) -> Iterable[ToolSpec]:
    """Return every tool that the request names to any provider."""
    plan: ToolPlan | None = request.tool_plan
    return (*request.tools, *plan.declared, *plan.offered, *plan.added) if plan else request.tools


def no_tool_search(_limits: object) -> ToolSearch | None:
    """Return `None`: the model cannot search for deferred tools."""
    return None


def is_held_back(tool: ToolSpec) -> bool:
    """Whether we defer the tool; a provider's own says for itself whether it is."""
    return bool(tool.is_deferred) and not tool.native_specs


def tool_entry(
    tool: ToolSpec, rule: Rule, reason: str, decision: Decision = "dropped"
) -> ReportEntry:
    """Return the report entry of a tool that is left out or changed."""
    return ReportEntry("tool", tool.name, decision, reason=reason, rule=rule)


def allowed_names(request: Request, provider: str) -> tuple[str, ...] | None:
    """Return the names of the only tools that may be called, sorted; `None`: all declared ones."""
    choice, plan = request.parameters.tool_choice, plan_of(request, provider)
    chosen = choice.allowed if choice is not None else None
    planned = plan.allowed if plan is not None else None
    given = [set(names) for names in (chosen, planned) if names is not None]
    return tuple(sorted(set[str].intersection(*given))) if given else None


# ---- parts that a provider cannot take as they are ----


class Change(NamedTuple):
    """Why a part is not sent as it is, for the report."""

    decision: Decision
    rule: Rule
    reason: str


Settle: TypeAlias = Callable[[JsonObject, str, list[Change]], list[JsonObject]]


def text_part(text: str) -> JsonObject:
    """Return the text as a stored part."""
    return {"type": "text", "text": text}


def opaque_part(provider: str, block: JsonObject, text: str) -> JsonObject:
    """Return a provider's block, and the text in it, as a stored part."""
    told = {"text": text} if text else {}
    return {"type": "opaque", "provider": provider, "block": dict(block), **told}


def is_attachment(part: JsonObject) -> bool:
    """Whether a part is bytes, or where they are found, that no text says."""
    return part["type"] == "image" or (part["type"] == "document" and part.get("text") is None)


def are_plain(parts: Iterable[JsonObject]) -> bool:
    """Whether every provider takes the parts: text, calls, thoughts, and results of text."""
    for part in parts:
        kind = part["type"]
        if kind == "tool_result":
            for inner in part.get("content", ()):
                if inner["type"] != "text" or "extras" in inner:
                    return False
        if kind not in ("text", "tool_call", "thinking", "tool_result") or "extras" in part:
            return False
    return True


def settle_parts(turn: Turn, settle: Settle, entries: list[ReportEntry]) -> Sequence[JsonObject]:
    """Return a turn's parts as the provider can take them.

    Args:
        settle: Returns what is sent for a part of a message, or of a result; calls and thoughts are
            not asked about.
        entries: Gets one for each kind of change.
    """
    parts: Sequence[JsonObject] = turn["parts"]
    if are_plain(parts):
        return parts
    changes: list[Change] = []
    settled: list[JsonObject] = []
    role = turn["role"]
    for part in parts:
        if part["type"] == "tool_result":
            before = len(changes)
            content = [k for p in part.get("content", ()) for k in settle(p, role, changes)]
            settled.append(part if len(changes) == before else {**part, "content": content})
        elif part["type"] in ("tool_call", "thinking"):
            settled.append(part)
        else:
            settled += settle(part, role, changes)
    if changes and not settled:  # it was all that the turn held
        settled.append(text_part(f"[{changes[0].reason}]"))
    entries.extend(turn_entries(turn, changes))
    return settled


def settle_results(turn: Turn, settle: Settle, entries: list[ReportEntry]) -> Sequence[JsonObject]:
    """Return the results in a turn as the provider can take them."""
    results = [part for part in turn["parts"] if part["type"] == "tool_result"]
    return settle_parts({**turn, "parts": results}, settle, entries)


def turn_entries(turn: Turn, changes: Iterable[Change]) -> list[ReportEntry]:
    """Return one entry for each kind of change; a turn that lost a part is shortened."""
    named = turn.get("id") or turn.get("note") or turn.get("kind", "said")
    entries: list[ReportEntry] = []
    for (decision, rule, reason), times in Counter(changes).items():
        did: Decision = "shortened" if decision == "dropped" else decision
        told = reason if times == 1 else f"{times} times: {reason}"
        entries.append(ReportEntry("message", named, did, reason=told, rule=rule))
    return entries


# ---- replies ----


MANAGED: Final[tuple[Rule, ...]] = ("parameter.provider_compaction", "parameter.context_edits")


class Reply(NamedTuple):
    """A model's answer: `parts` are stored parts, in the order of the reply.

    `unfinished_calls` are the ids of calls that the reply was cut off in: do not run them; `edits`
    are what the provider cleared of the history before it answered, in its own words.
    """

    provider: str
    model: str
    parts: list[JsonObject]
    unfinished_calls: tuple[str, ...] = ()
    response_id: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    container: JsonObject | None = None
    warnings: tuple[str, ...] = ()
    edits: tuple[JsonObject, ...] = ()


def field_of(value: Any, name: str) -> Any:
    """Return a field of a dict or of an SDK's object; `None` if there is none."""
    fields: Any = value
    return fields.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def read_object(value: Any) -> dict[str, Json] | None:
    """Return a dict, or an SDK's model as the dict that it was made from; `None` for anything else.

    Fields that the server did not send are left out, so that blocks can go back as they came.

    Raises:
        ReplyError: It cannot be written as JSON.
    """
    given = value
    try:
        if callable(dump := getattr(value, "model_dump", None)):
            value = dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
        if not isinstance(value, Mapping):
            return None
        dumped = json.dumps(value, default=_read_inner)
        body = json.loads(dumped, parse_constant=str)  # NaN as a word
    except (TypeError, ValueError, RecursionError) as error:
        raise ReplyError(given, reason=f"it is not a plain tree of values: {error}") from error
    return as_object(body)


def _read_inner(value: Any) -> dict[str, Json]:
    if (body := read_object(value)) is None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return body


def read_body(
    reply: Any, join: Callable[[list[dict[str, Json]]], dict[str, Json] | None]
) -> dict[str, Json]:
    """Return a reply as a dict.

    Args:
        join: Returns the reply that the events of a stream make; `None`: they make none.

    Raises:
        ReplyError: It is neither a reply nor the list of a stream's events.
    """
    is_stream = isinstance(reply, list | tuple)
    body = join(read_stream(reply)) if is_stream else read_object(reply)
    if body is None:
        raise ReplyError(reply, reason="it is neither a dict nor an SDK object")
    return body


def read_stream(reply: Any) -> list[dict[str, Json]]:
    """Return the events or chunks of a stream as dicts; none if one of them is no object."""
    pieces = [read_object(piece) for piece in reply]
    return [piece for piece in pieces if piece] if all(pieces) else []


# Some servers say these again in every piece of a stream.
_WHOLE: Final = ("id", "type", "role", "name", "format")


def grow(whole: dict[str, Json], piece: JsonObject) -> None:
    """Add a piece of a stream field by field; what is said whole stays as it came first."""
    for key, said in piece.items():
        before: Any = whole.get(key)
        if said is None or (key in _WHOLE and before):
            continue
        if isinstance(said, dict):
            grow(whole.setdefault(key, {}), as_object(said))
        elif before.__class__ is said.__class__ and said.__class__ in (str, list):
            whole[key] = before + said
        else:
            whole[key] = said


Note: TypeAlias = Callable[[str, str], None]  # takes a place and half a sentence


def read_content(
    content: Json, where: str, note: Note, read: Callable[[dict[str, Json], str], JsonObject]
) -> list[JsonObject]:
    """Return what a message or a result holds as stored parts; text is one, or none if empty.

    Args:
        read: Returns an object in the list, given with its place, as a part.
    """
    if isinstance(content, str):
        return [text_part(content)] if content else []
    if content is not None and not isinstance(content, list | tuple):
        note(where, f"is neither text nor a list of parts ({content!r:.40}); left out")
    parts: list[JsonObject] = []
    for at, entry in enumerate(as_list(content)):
        if isinstance(entry, str):
            parts.append(text_part(entry))
        elif isinstance(entry, Mapping):
            parts.append(read(dict(as_object(entry)), f"{where}[{at}]"))
        else:
            note(f"{where}[{at}]", f"is not a content part ({entry!r:.40}); left out")
    return parts


def note_rest(fields: JsonObject, read: Iterable[str], where: str, note: Note) -> None:
    """Name the fields that hold something and are not among those that are read."""
    for key in sorted(fields.keys() - {*read, "cache_control"}):
        if fields[key] is not None:
            note(where, f"has the field {key!r}, which has no place in a session")


def count_of(value: Json) -> int:
    """Return a reported count; 0 for one that is missing or no count."""
    number = as_number(value)
    return int(number) if 0 <= number < inf else 0


def read_usage(usage: Json, **places: str) -> Usage | None:
    """Return the reported tokens, each count the sum of what stands at its places."""
    fields = as_object(usage)

    def count(place: str) -> int:
        outer, _, name = place.rpartition(".")
        return count_of((as_object(fields.get(outer)) if outer else fields).get(name))

    counts = {name: sum(map(count, given.split())) for name, given in places.items()}
    return Usage(**counts) if fields else None


def read_call(
    call_id: str, name: str, given: Json, where: str, note: Note, *, extras: Json = None
) -> JsonObject:
    """Return a call as a stored part; arguments that are no JSON object stay as the model's text.

    Args:
        given: The arguments: an object, text that should hold one, or nothing (`None`, no text).
        where: The place of the arguments.
    """
    part: dict[str, Json] = {"type": "tool_call", "call_id": call_id, "name": name}
    value: Json = {} if given is None or given == "" else given
    if value.__class__ is dict and value.keys() == {INVALID_JSON}:
        written: Json = value[INVALID_JSON]
        is_broken = isinstance(written, str) and parse_object(written) is None
        value = written if is_broken else value
    if value.__class__ is not dict or broken_bound(value) is not None:
        part["arguments_json"] = value if isinstance(value, str) else compact_json(value)
        value = parse_object(part["arguments_json"])
    if value is None:
        note(where, f"The arguments of call {call_id!r} are not a JSON object.")
    part |= {"arguments": dict(value)} if value else {}
    return {**part, "extras": extras} if extras else part


def say_unfinished(call_id: str) -> str:
    """Say that a reply was cut off inside a call."""
    return f"The reply was cut off inside the call {call_id!r}."
