"""Our counts next to the usage that providers reported for recorded, accepted requests.

    python -m benchmarks.usage [FOLDER] [--worst N] [--json]

Each request is read by its provider's reader and counted as the ledger counts a request. What nobody
can count offline (a vendor's own tools, files by id, a schema for the reply …) is listed by its
reason, and so is what can only be guessed by its length. An error is how far a count is off, by the charge.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.data import corpus
from context_assembler import ModelLimits, ModelRegistry, TokenCounter, ToolChoice, read_transcript
from context_assembler.context import Request
from context_assembler.core import fixed_rows
from context_assembler.errors import AssemblyError
from context_assembler.events import Body, JsonObject, body_of, compact_json, kind_of
from context_assembler.options import Parameters

REGISTRY: Final = ModelRegistry()
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    "openai_chat": ("prompt_tokens",),
    "openai_responses": ("input_tokens",),
    "gemini": ("promptTokenCount",),
}


class Row(NamedTuple):
    """One recorded request, counted without the reasoning that its vendor does not read again."""

    provider: str
    id: str
    model: str
    is_first_party: bool
    kinds: tuple[str, ...]
    uncountable: str | None
    estimated: str | None
    charged: int
    counted: int

    @property
    def error(self) -> float:
        """The relative error; negative if we counted too little."""
        return self.counted / self.charged - 1


def read_rows(folder: Path) -> tuple[list[Row], dict[str, int]]:
    """Return every row that could be counted, and how many could not, by reason."""
    rows: list[Row] = []
    unread: defaultdict[str, int] = defaultdict(int)
    for provider in FIELDS:
        path = folder / "requests" / f"accepted_{provider}.jsonl"
        for line in path.read_text("utf-8").splitlines():
            counted = count_row(json.loads(line), provider=provider)
            if isinstance(counted, Row):
                rows.append(counted)
            else:
                unread[f"{provider}: {counted}"] += 1
    return rows, dict(unread)


def count_row(recorded: dict[str, Any], *, provider: str) -> Row | str:
    """Return the counted row, or why it cannot be counted."""
    usage, request = as_object(recorded["response_usage"]), recorded["request"]
    charged = sum(int(usage.get(field) or 0) for field in FIELDS[provider])
    if charged <= 0:
        return "no usage was reported"
    model = _model_of(recorded)
    try:
        limits = REGISTRY.get(model)
        tools = request.get("tools")
        listed = {"tools": [tools]} if isinstance(tools, dict) else {}  # Gemini takes one as well
        read = read_transcript({**request, **listed}, format=provider)
    except AssemblyError as error:
        return f"{type(error).__name__} {model}"
    counter = TokenCounter(limits, protocol=provider)
    events = [(event.type, body_of(event)) for event in read.events]
    leading = [*takewhile(lambda one: one[0] == "system", events)]
    turns = _without_old_reasoning(events[len(leading) :], limits, provider)
    system = "\n\n".join(part["text"] for _, body in leading for part in body["parts"])
    asked = Request(limits=limits, parameters=_parameters(request), system=system, tools=read.tools)
    tokens = sum(row.tokens for row in fixed_rows(counter, asked))
    tokens += _apart_tokens(request, counter)
    for kind, body in turns:
        tokens += counter.count_event(kind_of(kind, body), body) + counter.count_reasoning(body)
    if counter.frame.parallel[0]:
        tokens += _quote_tokens(turns, counter)
    bodies = [body for _, body in turns]
    return Row(
        provider=provider,
        id=recorded["id"],
        model=limits.id,
        is_first_party=recorded["first_party"],
        kinds=tuple(sorted(kinds_of(request, provider=provider))),
        uncountable=why_uncountable(recorded, provider=provider),
        estimated=why_estimated(bodies, limits, recorded, provider=provider),
        charged=charged,
        counted=tokens,
    )


def _without_old_reasoning(
    events: Sequence[tuple[Any, JsonObject]], limits: ModelLimits, provider: str
) -> list[tuple[Any, Body]]:
    """Leave out what the vendor does not read again: the reasoning of turns before the one at hand.

    To Gemini a text right behind results belongs to their turn. Vertex AI reads all there is while a
    call of the turn at hand is being answered.
    """
    asked = [n for n, (kind, _) in enumerate(events) if kind == "user"]
    if limits.provider == "google":
        asked = [n for n in asked if not (n and _continues(events[n - 1], events[n]))]
    last = asked[-1] if asked else 0
    if limits.host == "vertex_ai" and events and events[-1][0] == "tool_result":
        last = 0
    turns: list[tuple[Any, Body]] = []
    for number, (kind, body) in enumerate(events):
        parts = [*body["parts"]]
        if provider == "gemini":  # these clients sent readable thoughts as text
            parts = [
                {"type": "text", "text": part.get("text", "")}
                if part["type"] == "thinking" and not part.get("block")
                else part
                for part in parts
            ]
        if number < last:
            parts = [
                {key: value for key, value in part.items() if key != "signature"}
                for part in parts
                if not (part["type"] == "thinking" and part.get("block"))
            ]
        turns.append((kind, {**body, "parts": parts}))
    return turns


def _continues(before: tuple[Any, JsonObject], after: tuple[Any, JsonObject]) -> bool:
    is_text = all(part["type"] == "text" for part in after[1]["parts"])
    return bool(before[0] == "tool_result" and is_text)


def _quote_tokens(turns: Sequence[tuple[Any, JsonObject]], counter: TokenCounter) -> int:
    """Return what the results of parallel calls take more: they are read as JSON strings."""
    several: set[str] = set()
    for _, body in turns:
        ids = [part["call_id"] for part in body["parts"] if part["type"] == "tool_call"]
        several |= {*ids} if len(ids) > 1 else set()
    results = [part for _, body in turns for part in body["parts"] if part["type"] == "tool_result"]
    texts = [
        "\n".join(part["text"] for part in result.get("content", ()) if part["type"] == "text")
        for result in results
        if result["call_id"] in several
    ]
    count = counter.count_text
    return sum(max(0, count(compact_json(text)) - count(text)) for text in texts)


def _apart_tokens(request: JsonObject, counter: TokenCounter) -> int:
    """Return the frames of system messages that were sent one by one: we send them as one."""
    sent = (as_object(one) for key in ("messages", "input") for one in as_array(request.get(key)))
    led = sum(1 for _ in takewhile(lambda one: one.get("role") in ("system", "developer"), sent))
    led += bool(request.get("instructions"))
    return max(0, led - 1) * (counter.count_system("a") - counter.count_text("a"))


def _parameters(request: JsonObject) -> Parameters:
    given = request.get("tool_choice")
    choice = as_object(given)
    mode = given if isinstance(given, str) else choice.get("type")
    name = choice.get("name") or as_object(choice.get("function")).get("name")
    parallel = False if request.get("parallel_tool_calls") is False else None
    chosen: ToolChoice | None = ToolChoice(allows_parallel=parallel)
    if "contents" in request:
        calling = as_object(as_object(request.get("toolConfig")).get("functionCallingConfig"))
        chosen = ToolChoice() if calling.get("mode") else None
    elif name and mode in ("tool", "function"):
        chosen = ToolChoice(mode="tool", name=name, allows_parallel=parallel)
    elif mode in ("any", "required"):
        chosen = ToolChoice(mode="any", allows_parallel=parallel)
    thinking = as_object(request.get("thinking"))
    level = "high" if thinking.get("type") == "adaptive" else None
    budget = thinking.get("budget_tokens")
    return Parameters(
        max_tokens=1, tool_choice=chosen, thinking_budget=budget, thinking_level=level
    )


def _model_of(recorded: JsonObject) -> str:
    model = recorded["request"].get("model") or recorded.get("response_model") or ""
    url = recorded["url"]
    if "/models/" in url and not recorded["request"].get("model"):
        model = url.split("/models/")[1].split(":")[0]
    return f"vertex_ai/{model}" if "aiplatform" in recorded["host"] else str(model)


def as_object(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_array(value: object) -> list[Any]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def walk_objects(value: object) -> Iterator[dict[str, Any]]:
    """Yield every object in a value, at any depth."""
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else as_array(value)
    for one in inner:
        yield from walk_objects(one)


# ---- what a request holds, and what of it nobody can count offline ----

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


def kinds_of(request: JsonObject, *, provider: str) -> set[str]:
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


def _inline_kind(inline: JsonObject) -> str:
    media = str(inline.get("mimeType") or inline.get("mime_type") or "")
    family = media.split("/", maxsplit=1)[0]
    return family if family in ("image", "audio", "video") else "document"


def _tool_kinds(request: JsonObject, provider: str) -> Iterator[tuple[str, str]]:
    """Yield for each tool whether it is the caller's own or the vendor's, and its type."""
    tools = request.get("tools") or request.get("functions")
    for tool in [tools] if isinstance(tools, dict) else as_array(tools):
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


def why_uncountable(recorded: JsonObject, *, provider: str) -> str | None:
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


def _asks_for_shape(request: JsonObject) -> bool:
    shape = as_object(request.get("response_format")).get("type", "text")
    text = as_object(as_object(request.get("text")).get("format")).get("type", "text")
    config = as_object(request.get("generationConfig") or request.get("generation_config"))
    output = as_object(request.get("output_config")).get("format") or request.get("output_format")
    has_schema = any(config.get(key) for key in ("responseSchema", "responseJsonSchema"))
    return shape != "text" or text != "text" or bool(output) or has_schema


def why_estimated(
    turns: Iterable[JsonObject], limits: ModelLimits, recorded: JsonObject, *, provider: str
) -> str | None:
    """Say what of a request that could be counted is guessed by its length; `None`: nothing.

    Args:
        turns: The bodies of the request without the reasoning of earlier turns.
    """
    parts = [part for body in turns for part in body["parts"]]
    if any(_hides_reasoning(part) for part in parts):
        if "2.5" in limits.id and "stream" in recorded["url"] and not limits.host:
            return "sealed reasoning that Gemini 2.5 reads where the reply is streamed"
        return "sealed reasoning of the turn at hand, by its length"
    documents = [part for part in parts if part["type"] == "document"]
    if limits.provider == "openai" and any(part.get("text") is None for part in documents):
        return "a document, by its pages: what OpenAI reads of one is not published"
    if provider == "openai_responses" and _replies_in_parallel(recorded):
        return "the reply holds parallel calls, and then the usage leaves the tools out"
    return None


def _hides_reasoning(part: JsonObject) -> bool:
    if part["type"] == "thinking":
        return bool(as_object(part.get("block")).get("encrypted_content"))
    return bool(part.get("signature"))


def _replies_in_parallel(recorded: JsonObject) -> bool:
    reply = as_object(recorded.get("response"))
    output = [as_object(entry) for entry in as_array(reply.get("output"))]
    calls = [entry for entry in output if entry.get("type") == "function_call"]
    return len(calls) > 1 and "reasoning" not in [entry.get("type") for entry in output]


def _answers_another(request: JsonObject) -> bool:
    parts = list(walk_objects({"contents": request.get("contents")}))
    called, answered = (
        {as_object(part.get(camel) or part.get(snake)).get("name") for part in parts} - {None}
        for camel, snake in (
            ("functionCall", "function_call"),
            ("functionResponse", "function_response"),
        )
    )
    return bool(called and answered - called)


def _is_early(recorded: JsonObject) -> bool:
    """Whether a response was made before April 2025: its id begins with the second it was made in."""
    stamped = str(recorded.get("response_id") or "").removeprefix("resp_")[:8]
    try:
        return _FIRST_SECOND < int(stamped, 16) < _LAST_SECOND
    except ValueError:
        return False


def _keeps_reasoning(request: JsonObject) -> bool:
    """Whether the turn at hand holds reasoning that the provider has, and the request does not."""
    entries = [as_object(entry) for entry in as_array(request.get("input"))]
    asked = [n for n, entry in enumerate(entries) if entry.get("role") == "user"]
    return any(
        entry.get("type") == "reasoning" and entry.get("id") and not entry.get("encrypted_content")
        for entry in entries[asked[-1] if asked else 0 :]
    )


# ---- output ----


class Summary(NamedTuple):
    """How near a group of rows is counted: median, 95th percentile, bias, rows 10 % too low."""

    rows: int
    median: float
    p95: float
    bias: float
    under: int


def summarize(errors: Sequence[float]) -> Summary:
    """Return the figures of one group."""
    sizes = sorted(map(abs, errors))
    p95 = sizes[min(len(sizes) - 1, int(0.95 * len(sizes)))]
    under = sum(error < -0.10 for error in errors)
    return Summary(len(errors), median(sizes), p95, median(errors), under)


def groups_of(rows: Iterable[Row]) -> dict[str, Summary]:
    """Return the figures by provider, party and kind of request."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        name = row.provider if row.is_first_party else f"{row.provider} (third party)"
        if row.uncountable is not None:
            found[f"{name} | not countable offline: {row.uncountable}"].append(row.error)
            continue
        found[f"{name} | all countable or estimated"].append(row.error)
        if row.estimated is not None:
            found[f"{name} | estimated: {row.estimated}"].append(row.error)
            continue
        found[f"{name} | all countable"].append(row.error)
        found[f"{name} | kind {'+'.join(row.kinds)}"].append(row.error)
    return {name: summarize(errors) for name, errors in sorted(found.items())}


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Compare counts with reported usage.")
    parser.add_argument("folder", type=Path, nargs="?", default=corpus())
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--worst", type=int, default=5)
    given = parser.parse_args()
    if given.folder is None:
        print("The corpus is not there: set CONTEXT_ASSEMBLER_CORPUS.")
        return 0
    rows, unread = read_rows(given.folder)
    groups = groups_of(rows)
    if given.as_json:
        shown = {name: one._asdict() for name, one in groups.items()}
        print(json.dumps({"groups": shown, "unread": unread}))
        return 0
    print(f"{'group':78} {'rows':>5} {'median':>8} {'p95':>8} {'bias':>8} {'under':>6}")
    for name, s in groups.items():
        figures = f"{s.rows:5} {s.median:8.1%} {s.p95:8.1%} {s.bias:+8.1%} {s.under:6}"
        print(f"{name[:78]:78} {figures}")
    print(f"\nThe {given.worst} worst countable rows of each provider:")
    for provider in FIELDS:
        own = [r for r in rows if r.provider == provider and r.is_first_party]
        countable = [row for row in own if row.uncountable is row.estimated is None]
        for row in sorted(countable, key=lambda r: -abs(r.error))[: given.worst]:
            what = f"counted {row.counted}, charged {row.charged} ({row.error:+.0%})"
            print(f"  {provider} {row.id} {row.model} {'+'.join(row.kinds)}: {what}")
    print("\nNot read:")
    for reason, number in sorted(unread.items(), key=lambda pair: -pair[1]):
        print(f"  {number:4} {reason[:110]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
