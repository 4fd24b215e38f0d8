"""Sessions of other agents and messages of frameworks: read as what they are, every row counted."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from context_assembler import Image, Text, Thinking, ToolCall, ToolResult
from context_assembler.errors import TranscriptError
from context_assembler.transcripts import detect_format, read_transcript, write_transcript
from tests.transcripts.shapes import piece, places, text

AT = "2026-09-01T10:00:00Z"
ASKS: dict[str, Any] = {"p": "."}


def codex_row(kind: str, **payload: Any) -> dict[str, Any]:
    return piece(kind, timestamp=AT, payload=payload)


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return piece("message", role=role, content=[piece(kind, text=text)])


def pi_row(
    own_id: str, parent: str | None, role: str, *content: Any, **more: Any
) -> dict[str, Any]:
    fields = {"role": role, "content": [*content], **more}
    return piece("message", id=own_id, parentId=parent, timestamp=AT, message=fields)


def told(role: str, *content: Any, agent: bool = True, user: bool = True) -> dict[str, Any]:
    """Return a message of goose."""
    shown = {"agentVisible": agent, "userVisible": user}
    return {"role": role, "created": 1_788_000_000, "content": [*content], "metadata": shown}


def message(own_id: str, role: str, *parts: Any, **info: Any) -> dict[str, Any]:
    """Return a message of opencode."""
    return {"info": {"id": own_id, "role": role, **info}, "parts": [*parts]}


ASKED = text("list files")
FOREIGN = Path(__file__).parent / "foreign"


def read_sample(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return [*map(json.loads, text.splitlines())] if path.suffix == ".jsonl" else json.loads(text)


FILES = {path.name: path for path in sorted(FOREIGN.iterdir())}
SAMPLES = {path.stem: read_sample(path) for path in FILES.values() if "." not in path.stem}
OTHERS = {path.stem: read_sample(path) for path in FILES.values() if "." in path.stem}
every_sample = pytest.mark.parametrize(("name", "sample"), SAMPLES.items(), ids=SAMPLES.keys())


def rows_in(sample: Any) -> Any:
    """Return the list of messages in a sample."""
    is_list = not hasattr(sample, "keys")
    return sample if is_list else rows_in(sample.get("messages") or sample["values"])


@every_sample
def test_a_sample_is_read_as_what_it_is(name: str, sample: Any) -> None:
    read = read_transcript(sample)

    assert detect_format(sample) == name
    assert read == read_transcript(sample, format=name)
    assert read.rows_read + read.rows_listed == len(rows_in(sample))


NOBODYS: list[dict[str, Any]] = [
    {"foo": "bar"},
    {"role": "user", "text": "hi"},
    {"type": "moon", "id": "m", "timestamp": AT},
    {"type": None, "content": "hi"},
    {"kind": "other", "parts": []},
]


@every_sample
@pytest.mark.parametrize("row", NOBODYS, ids=str)
def test_a_sample_among_rows_of_nobody_is_refused(name: str, sample: Any, row: Any) -> None:
    copy = deepcopy(sample)
    rows_in(copy).extend([row] * 90)

    with pytest.raises(TranscriptError):
        read_transcript(copy)
    if name != "openai_agents":  # of an item that is named as one, what it says is kept
        with pytest.raises(TranscriptError, match=r"9\d of its \d+ rows could not be read"):
            read_transcript(copy, format=name)
        assert read_transcript(copy, format=name, partial=True).rows_listed >= 90


@pytest.mark.parametrize("name", ["vercel_ai", "bedrock", "gemini", "goose", "pydantic_ai"])
def test_a_message_that_holds_nothing_is_none_of_nobody(name: str) -> None:
    said = [{"text": "hi"}]
    talks: dict[str, list[dict[str, Any]]] = {
        "vercel_ai": [{"role": "user", "parts": [text("hi")]}, {"role": "assistant", "parts": []}],
        "bedrock": [{"role": "user", "content": said}, {"role": "assistant", "content": []}],
        "gemini": [{"role": "user", "parts": said}, {"role": "user", "parts": []}],
        "goose": [told("user", text("hi")), told("assistant")],
        "pydantic_ai": [
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]},
            {"kind": "response", "parts": []},
        ],
    }

    read = read_transcript(talks[name])

    assert (read.format, read.events[0].text) == (name, "hi")


@every_sample
def test_calls_results_pictures_and_reasoning_survive(name: str, sample: Any) -> None:
    parts = [part for event in read_transcript(sample).events for part in event.parts]
    [call] = [part for part in parts if isinstance(part, ToolCall)]
    [result] = [part for part in parts if isinstance(part, ToolResult)]

    assert (call.call_id, call.name, call.arguments) == ("c1", "ls", {"p": "."})
    assert (result.call_id, result.text.strip('[]"')) == ("c1", "a.txt")
    assert Text("list files") in parts
    without = {"codex", "openai_agents"}
    assert any(isinstance(part, Image) for part in parts) or name in without
    assert any(isinstance(part, Thinking) for part in parts) or name == "openai_agents"
    assert result.is_error or name in {*without, "llama_index"}
    signed = [part.block for part in parts if isinstance(part, Thinking)]
    assert any(signed) or name in {"openai_agents", "goose"}


@pytest.mark.parametrize("name", ["pi", "opencode", "pydantic_ai", "langchain"])
def test_usage_counts_the_whole_prompt(name: str) -> None:
    makers = [event.made_by for event in read_transcript(SAMPLES[name]).events]
    [usage] = [maker.usage for maker in makers if maker is not None and maker.usage is not None]

    assert (usage.output_tokens, usage.cache_read_tokens) == (2, 3)
    assert usage.input_tokens in (7, 9)


@every_sample
def test_what_is_read_goes_to_every_provider(name: str, sample: Any) -> None:
    events = read_transcript(sample).events

    for provider in ("anthropic", "openai_chat", "openai_responses", "gemini"):
        assert "list files" in write_transcript(events, format=provider), name


# ---- compactions: what the program itself would go on with ----


CODEX = SAMPLES["codex"]
KEPT = [said("user", "list files"), said("user", "SHORT")]
NEXT = codex_row("response_item", **said("user", "go on"))
NAMED = codex_row("response_item", id="msg_1", **said("user", "list files"))
BY_NAME = [{"type": "reference", "item_id": "msg_1"}, {"type": "inline", "item": KEPT[1]}]
PI = [
    pi_row("a", None, "user", ASKED),
    pi_row("b", "a", "assistant", text("OLD")),
    pi_row("c", "b", "user", text("kept")),
    {"type": "compaction", "id": "d", "parentId": "c", "summary": "SHORT", "firstKeptEntryId": "c"},
    pi_row("e", "d", "user", text("go on")),
]
PARTS = {"type": "compaction", "content": "SHORT"}
COMPACTED: dict[str, tuple[Any, list[str]]] = {
    "codex": (
        [*CODEX, codex_row("compacted", message="", replacement_history=KEPT), NEXT],
        ["list files", "SHORT", "go on"],
    ),
    "codex, twice": (
        [
            *CODEX,
            codex_row("compacted", message="", replacement_history=[said("user", "FIRST")]),
            NEXT,
            codex_row("compacted", message="", replacement_history=KEPT),
        ],
        ["list files", "SHORT"],
    ),
    "codex, with a summary alone": (
        [*CODEX, codex_row("compacted", message="SHORT"), NEXT],
        ["list files", "SHORT", "go on"],
    ),
    "codex, with items by their names": (
        [NAMED, codex_row("compacted", message="", replacement_history_entries=BY_NAME), NEXT],
        ["list files", "SHORT", "go on"],
    ),
    "codex, a turn taken back": (
        [*CODEX[:3], NEXT, codex_row("event_msg", type="thread_rolled_back", num_turns=1)],
        ["list files"],
    ),
    "pi": (PI, ["SHORT", "kept", "go on"]),
    "pi, a branch": ([*PI[:2], pi_row("x", "a", "user", text("other"))], ["list files", "other"]),
    "goose": (
        [
            told("user", text("list files"), agent=False),
            told("assistant", text("OLD"), agent=False),
            told("user", text("SHORT"), user=False),
            told("user", text("go on")),
        ],
        ["SHORT", "go on"],
    ),
    "opencode": (
        [
            message("a", "user", text("list files")),
            message("b", "assistant", text("OLD"), parentID="a"),
            message("c", "user", {"type": "compaction", "auto": True}),
            message("d", "assistant", text("SHORT"), parentID="c", summary=True),
            message("e", "user", text("go on")),
        ],
        ["SHORT", "go on"],
    ),
    "pydantic-ai": (
        [
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "list files"}]},
            {"kind": "response", "parts": [{**PARTS, "part_kind": "compaction"}]},
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "go on"}]},
        ],
        ["SHORT", "go on"],
    ),
}


@pytest.mark.parametrize(("source", "sent"), COMPACTED.values(), ids=COMPACTED.keys())
def test_a_session_goes_on_as_the_program_would(source: Any, sent: list[str]) -> None:
    items = json.loads(write_transcript(read_transcript(source).events, format="openai_responses"))

    users = [item["content"] for item in items if item.get("role") == "user"]
    assert [one.removeprefix("<summary>\n").removesuffix("\n</summary>") for one in users] == sent
    assert "OLD" not in str(items)


def test_a_compaction_that_openai_sealed_goes_back_to_it_alone() -> None:
    sealed = [said("user", "list files"), {"type": "compaction", "encrypted_content": "ZW5j"}]
    rows = [*CODEX, codex_row("compacted", message="", replacement_history=sealed), NEXT]

    events = read_transcript(rows).events

    assert '"ZW5j"' in write_transcript(events, format="openai_responses")
    assert "a.txt" not in write_transcript(events, format="openai_responses")
    assert "a.txt" in write_transcript(events, format="anthropic")


def test_the_system_prompt_of_a_rollout_survives_its_compactions() -> None:
    source, _ = COMPACTED["codex"]

    assert "You code." in write_transcript(read_transcript(source).events, format="openai_chat")


# ---- details of single formats ----


@pytest.mark.parametrize(("name", "source"), OTHERS.items(), ids=OTHERS.keys())
def test_other_shapes_of_a_format_are_read(name: str, source: Any) -> None:
    read = read_transcript(source)

    assert detect_format(source) == name.partition(".")[0]
    assert (bool(read.events), read.issues) == (True, ())


DENIED: dict[str, Any] = {"id": "a", "approved": False, "reason": "NEVER"}
FATES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "denied": ({"state": "output-denied", "approval": DENIED}, "denied this call: NEVER", True),
    "to be denied": (
        {"state": "approval-responded", "approval": DENIED},
        "denied this call: NEVER",
        True,
    ),
    "denied without a word": (
        {"state": "output-denied", "approval": {"id": "a", "approved": False}},
        "The user denied this call.",
        True,
    ),
    "denied by nobody": ({"state": "output-denied"}, "The user denied this call.", True),
    "no state": ({"output": "done"}, "done", False),
    "a state of its own": ({"state": "output-final", "output": {"a": 1}}, '{"a":1}', False),
    "an error of no state": ({"errorText": "burnt"}, "burnt", True),
    "approved": (
        {"state": "output-available", "approval": DENIED | {"approved": True}, "output": "done"},
        "done",
        False,
    ),
}


@pytest.mark.parametrize(("answer", "says", "is_error"), FATES.values(), ids=FATES)
@pytest.mark.parametrize("kind", ["tool-ls", "dynamic-tool", "tool-invocation"])
def test_what_became_of_a_call_is_told(
    answer: dict[str, Any], says: str, is_error: bool, kind: str
) -> None:
    call = {"toolCallId": "c1", "toolName": "ls", "input": ASKS, **answer}
    held = piece(kind, toolInvocation=call) if kind == "tool-invocation" else piece(kind, **call)
    talk = [{"role": "user", "parts": [text("hi")]}, {"role": "assistant", "parts": [held]}]

    read = read_transcript(talk)

    [result] = [part for part in read.events[-1].parts if isinstance(part, ToolResult)]
    assert (result.call_id, result.is_error) == ("c1", is_error)
    assert says in result.text
    assert not read.issues


@pytest.mark.parametrize("state", ["input-available", "approval-requested", "call"])
def test_a_call_without_an_answer_has_none(state: str) -> None:
    call = piece("tool-ls", toolCallId="c1", state=state, input=ASKS, approval={"id": "a"})
    talk = [{"role": "user", "parts": [text("hi")]}, {"role": "assistant", "parts": [call]}]

    assert [event.type for event in read_transcript(talk).events] == ["user", "assistant"]


@pytest.mark.parametrize(("reason", "says"), [("NEVER", "call: NEVER"), (None, "this call.")])
def test_a_denied_result_says_so(reason: Any, says: str) -> None:
    output = {"type": "execution-denied", "reason": reason}
    called = piece("tool-call", toolCallId="c1", toolName="ls", input=ASKS)
    answer = piece("tool-result", toolCallId="c1", toolName="ls", output=output)
    talk = [{"role": "assistant", "content": [called]}, {"role": "tool", "content": [answer]}]

    [result] = read_transcript(talk, format="vercel_ai").events[-1].parts

    assert isinstance(result, ToolResult)
    assert says in result.text
    assert result.is_error


def test_what_a_session_cannot_hold_is_listed() -> None:
    parts = [text("hi"), {"type": "hologram", "x": 1}, {**text("yes"), "mood": "gay"}]

    read = read_transcript([{"role": "user", "parts": parts}])

    unknown, left = (f"{issue.what} {issue.reason}" for issue in read.issues)
    assert "hologram" in unknown
    assert "mood" in left


# ---- damage ----


def changed(sample: Any, values: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the sample with one field, or one entry of a list, of another value, or gone."""
    for *path, last in places(sample):
        for new in (*values, "gone"):
            copy = deepcopy(sample)
            place = copy
            for key in path:
                place = place[key]
            if new == "gone":
                del place[last]
            else:
                place[last] = new
            yield copy


@every_sample
def test_any_one_damaged_field_is_read_listed_or_refused(name: str, sample: Any) -> None:
    for damaged in changed(sample, (None, 5, [], {"type": []})):
        try:
            read = read_transcript(damaged, format=name, partial=True)
        except TranscriptError:
            continue
        write_transcript(read.events, format="anthropic")


@every_sample
def test_damage_never_makes_it_another_format(name: str, sample: Any) -> None:
    for damaged in changed(rows_in(sample), (5,)):
        try:
            assert detect_format(damaged) == name
        except TranscriptError:
            continue


@every_sample
def test_a_row_less_and_keys_in_another_order_make_no_other_format(name: str, sample: Any) -> None:
    shuffled = json.loads(json.dumps(sample), object_pairs_hook=shuffle)

    for cut in (slice(1, None), slice(None, -1)):
        copy = deepcopy(sample)
        rows_in(copy)[:] = rows_in(copy)[cut]
        assert detect_format(copy) == name
    assert detect_format(shuffled) == name
    assert read_transcript(shuffled).events == read_transcript(sample).events


def shuffle(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(random.Random(4).sample(pairs, len(pairs)))


# ---- recorded and handed files ----


def test_recorded_rollouts_are_read_whole(corpus: Path) -> None:
    for path in sorted((corpus / "trajectories" / "codex_rollout").rglob("*.jsonl")):
        read = read_transcript(path)

        assert detect_format(path.read_bytes()) == "codex"
        assert all("client" in issue.reason for issue in read.issues), path.name
        assert read.rows_read > read.rows_listed
        assert read.events[0].type == "system"


HANDED = {
    "misread_pydantic_ai.json": "pydantic_ai",
    "misread_vercel_model.json": "vercel_ai",
    "misread_pi_openclaw_compacted.jsonl": "pi",
    "codex_compacted_rollout.jsonl": "codex",
}


@pytest.mark.parametrize(("file", "name"), HANDED.items(), ids=HANDED.keys())
def test_handed_files_are_read_as_what_they_are(corpus: Path, file: str, name: str) -> None:
    path = corpus.parent / "cases" / "second" / file
    if not path.is_file():
        pytest.skip("the handed inputs are not next to the corpus")

    read = read_transcript(path)

    assert detect_format(path.read_bytes()) == name
    assert all("client" in issue.reason for issue in read.issues)
    assert any(event.tool_calls for event in read.events)
