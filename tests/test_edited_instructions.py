"""Instruction files that are edited while a session goes on, under both policies."""

import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    TemplateError,
    open_store,
)
from context_assembler.values.events import CompactionBody, SessionEvent
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.report import ReportEntry

OPUS = "claude-opus-5-5"
HAIKU = "claude-haiku-4-5"
MODELS = (OPUS, "gpt-5.5", "gpt-4.1", "gemini-4-argon")


def reply_of(model: str, text: str) -> dict[str, Any]:
    """Return what the model answers, as a dict of its provider's SDK."""
    shape = next(shape for name, shape in SHAPES.items() if model.startswith(name))
    return shape(model, text)


def claude_reply(model: str, text: str) -> dict[str, Any]:
    thought = {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"}
    content = [thought, {"type": "text", "text": text}]
    return {"type": "message", "role": "assistant", "model": model, "content": content}


def gemini_reply(_model: str, text: str) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"candidates": [{"content": content, "finish_reason": "STOP"}]}


def responses_reply(_model: str, text: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []}]
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    return {"object": "response", "id": "r", "output": [{**said, "content": content}]}


def chat_reply(model: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"object": "chat.completion", "model": model, "choices": [choice]}


SHAPES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "claude": claude_reply,
    "gemini": gemini_reply,
    "gpt-5.5": responses_reply,
    "gpt-4.1": chat_reply,
}


class Talk:
    """A session over a folder; each step may come from a process of its own."""

    def __init__(self, folder: Path, *, policy: str = "freeze", model: str = OPUS) -> None:
        self.folder = folder
        self.model = model
        self.store = open_store("memory:")
        self.config = AssemblerConfig(bootstrap={"policy": policy, "required": ()})
        self._turns = 0

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    async def step(self, *, records: bool = True, **options: Any) -> AssembledContext:
        """Say something, assemble as a process that has just begun would, and record a reply."""
        self._turns += 1
        assembler = ContextAssembler(self.store, bootstrap=self.folder, config=self.config)
        await assembler.add_user("s", f"Question {self._turns}")
        asked: dict[str, Any] = {"model": self.model, "max_tokens": 2_000, **options}
        context = await assembler.assemble("s", **asked)
        if records:
            reply = reply_of(str(asked["model"]), f"Answer {self._turns}")
            await assembler.record("s", reply, context)
        return context


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    made = Talk(tmp_path)
    made.write("AGENT.md", "Book trips.")
    made.write("SOUL.md", "Kind: v1")
    return made


def row_of(context: AssembledContext, name: str, kind: str = "file") -> ReportEntry:
    [row] = [e for e in context.report.entries if e.kind == kind and e.id.endswith(name)]
    return row


def prompt(soul: str) -> str:
    return f"Book trips.\n\n---\n\n{soul}"


async def test_with_refresh_an_edit_shows_in_the_next_call_which_says_what_that_costs(
    tmp_path: Path,
) -> None:
    talk = Talk(tmp_path, policy="refresh")
    talk.write("AGENT.md", "Book trips.")
    talk.write("SOUL.md", "Kind: v1")
    contexts = [await talk.step()]
    talk.write("SOUL.md", "Kind: v2")
    contexts += [await talk.step(), await talk.step()]

    assert [one.system_prompt for one in contexts] == [
        prompt("Kind: v1"),
        prompt("Kind: v2"),
        prompt("Kind: v2"),
    ]
    announced = row_of(contexts[1], "system", "note")
    assert announced.rule == "rewrite.system"
    assert "(soul changed): a new epoch begins" in announced.reason
    assert "1 signed thinking part(s) are left out" in announced.reason
    assert not [e for e in contexts[2].report.entries if e.rule == "rewrite.system"]


async def test_with_freeze_an_edit_waits_and_the_report_says_so(talk: Talk) -> None:
    first = await talk.step()
    talk.write("SOUL.md", "Kind: v2")
    second = await talk.step()

    assert second.system_prompt == first.system_prompt == prompt("Kind: v1")
    row = row_of(second, "SOUL.md")
    assert (row.decision, row.tokens_after) == ("kept", row_of(first, "SOUL.md").tokens_after)
    assert "changed on disk; it applies from the next rewrite point on" in row.reason
    assert row_of(second, "soul", "section").rule == "system.frozen"
    assert any("SOUL.md: changed on disk" in warning for warning in second.report.warnings)


async def test_a_change_that_waits_is_warned_of_once_and_in_the_rows_of_every_call(
    talk: Talk,
) -> None:
    await talk.step()
    talk.write("SOUL.md", "Kind: v2")
    second, third = await talk.step(), await talk.step()
    talk.write("SOUL.md", "Kind: v3")
    fourth = await talk.step()

    told = [[w for w in one.report.warnings if "SOUL" in w] for one in (second, third, fourth)]
    assert [len(warnings) for warnings in told] == [1, 0, 1]
    assert "changed on disk" in row_of(third, "SOUL.md").reason


async def test_a_change_taken_back_is_none(talk: Talk) -> None:
    await talk.step()
    talk.write("SOUL.md", "Kind: v2")
    await talk.step()
    talk.write("SOUL.md", "Kind: v1")

    context = await talk.step()

    assert context.report.warnings == ()
    assert row_of(context, "soul", "section").rule == ""


async def test_files_that_appear_and_vanish_wait_as_well(talk: Talk) -> None:
    await talk.step()
    (talk.folder / "SOUL.md").unlink()
    talk.write("CONTEXT.md", "The office is closed.")

    context = await talk.step()
    refreshed = await talk.step(refresh=True)

    assert context.system_prompt == prompt("Kind: v1")
    assert row_of(context, "SOUL.md").decision == "kept"
    assert row_of(context, "CONTEXT.md").tokens_after == 0
    assert row_of(context, "context", "section").decision == "dropped"
    assert refreshed.system_prompt == prompt("The office is closed.")


async def test_a_secret_that_is_masked_by_now_does_not_wait(talk: Talk) -> None:
    token = "ghp" + "_abcdefghijklmnopqrstuvwxyz0123456789"
    talk.write("SOUL.md", f"Use {token} to push.")
    before = await talk.step()
    bootstrap = {"policy": "freeze", "required": ()}
    talk.config = AssemblerConfig(bootstrap=bootstrap, safety={"masks_secrets_in": ["files"]})
    after, later = await talk.step(), await talk.step()

    assert token in before.system_prompt
    assert after.system_prompt == later.system_prompt
    assert after.system_prompt == prompt("Use [masked: GitHub Token] to push.")
    assert row_of(after, "system", "note").rule == "rewrite.system"
    assert row_of(after, "bootstrap.policy", "note").rule == "system.not_held"
    assert row_of(later, "SOUL.md").reason.startswith("a secret was masked")


async def test_a_template_that_no_longer_renders_waits_as_any_edit_does(talk: Talk) -> None:
    front = "---\ntemplate: jinja2\n---\n"
    talk.write("SOUL.md", f"{front}Speak for {{{{ model }}}}.")
    first = await talk.step()
    talk.write("SOUL.md", f"{front}Speak for {{% if")
    second = await talk.step()

    assert second.system_prompt == first.system_prompt == prompt(f"Speak for {OPUS}.")
    assert "template does not render" in row_of(second, "soul", "section").reason
    assert "template does not render" in row_of(second, "SOUL.md").reason
    with pytest.raises(TemplateError, match=r"SOUL\.md:4"):
        await talk.step(refresh=True)


async def test_with_refresh_a_template_that_does_not_render_is_an_error_until_it_does(
    tmp_path: Path,
) -> None:
    front = "---\ntemplate: jinja2\n---\n"
    talk = Talk(tmp_path, policy="refresh")
    talk.write("AGENT.md", f"{front}Speak for {{{{ model }}}}.")
    first = await talk.step()
    talk.write("AGENT.md", f"{front}Speak for {{{{ oops }}}}.")
    for _ in range(2):
        with pytest.raises(TemplateError, match=r"AGENT\.md:4"):
            await talk.step()
    talk.write("AGENT.md", f"{front}Speak for {{{{ model }}}}.")

    assert (await talk.step()).system_prompt == first.system_prompt


async def test_a_template_that_an_agent_does_not_inherit_is_not_rendered_for_it(
    talk: Talk,
) -> None:
    talk.write("SOUL.md", "---\ntemplate: jinja2\n---\n{{ nobody }}")
    talk.config = AssemblerConfig(prompt={"inherits": {"researcher": ["agent"]}})

    context = await talk.step(agent_id="researcher")

    assert context.system_prompt == "Book trips."
    with pytest.raises(TemplateError):
        await talk.step()


async def test_a_compaction_lets_an_edit_in(talk: Talk) -> None:
    await talk.step()
    await talk.step()
    talk.write("SOUL.md", "Kind: v2")
    body = CompactionBody(summary="They talked.", first_seq=1, last_seq=2)
    await talk.store.append("s", [SessionEvent(body=body)])

    contexts = [await talk.step(), await talk.step()]

    assert {one.system_prompt for one in contexts} == {prompt("Kind: v2")}
    assert row_of(contexts[0], "system", "note").rule == "rewrite.system"


async def test_another_model_lets_an_edit_in(talk: Talk) -> None:
    await talk.step()
    talk.write("SOUL.md", "Kind: v2")

    contexts = [await talk.step(model="gpt-4.1"), await talk.step(model="gpt-4.1")]

    assert {one.system_prompt for one in contexts} == {prompt("Kind: v2")}


async def test_another_cut_lets_an_edit_in(talk: Talk) -> None:
    contexts: list[AssembledContext] = []
    for turn in range(12):
        if turn == 3:
            talk.write("SOUL.md", "Kind: v2")
        assembler = ContextAssembler(talk.store, config=talk.config)
        await assembler.add_user("s", "word " * 600)
        contexts.append(await talk.step(max_context_tokens=4_500, model=HAIKU))

    prompts = [one.system_prompt for one in contexts]
    changed_at = prompts.index(prompt("Kind: v2"))
    levels = [one.metadata.cut_level for one in contexts]
    assert changed_at > 3
    assert levels[changed_at] != levels[changed_at - 1]
    assert levels[3:changed_at] == [levels[2]] * (changed_at - 3)


async def test_a_caller_who_asks_for_another_agent_gets_its_files(talk: Talk) -> None:
    await talk.step()
    talk.write("AGENT.bot.md", "Cancel trips.")

    context = await talk.step(agent_id="bot")

    assert context.system_prompt.startswith("Cancel trips.")


async def test_a_smaller_window_that_the_old_prompt_does_not_fit_lets_an_edit_in(
    talk: Talk,
) -> None:
    talk.config = AssemblerConfig(bootstrap={"policy": "freeze", "required": ("agent",)})
    talk.write("AGENT.md", "word " * 3_000)
    await talk.step()
    talk.write("AGENT.md", "Book trips.")

    context = await talk.step(max_context_tokens=3_000)

    assert context.system_prompt == prompt("Kind: v1")


async def test_the_compaction_check_measures_the_prompt_that_waits(talk: Talk) -> None:
    await talk.step()
    assembler = ContextAssembler(talk.store, bootstrap=talk.folder, config=talk.config)
    before = await assembler.check_compaction("s", model=OPUS)
    talk.write("SOUL.md", "word " * 2_000)

    after = await assembler.check_compaction("s", model=OPUS)

    assert after.floor_tokens == before.floor_tokens


async def test_a_warning_about_a_file_is_given_once_per_state_and_session(tmp_path: Path) -> None:
    talk = Talk(tmp_path, policy="refresh")
    (tmp_path / "AGENT.md").write_bytes(b"Pr\xe9parez tout.")
    contexts = [await talk.step(), await talk.step(records=False)]
    (tmp_path / "AGENT.md").write_bytes(b"Pr\xe9parez bien.")
    contexts += [await talk.step(records=False), await talk.step()]
    talk.write("AGENT.md", "Préparez.")
    contexts.append(await talk.step())
    (tmp_path / "AGENT.md").write_bytes(b"Pr\xe9parez bien.")
    contexts.append(await talk.step())

    told = [sum("AGENT.md" in warning for warning in one.report.warnings) for one in contexts]
    assert told == [1, 0, 1, 1, 0, 1], "what no reply was recorded for is told again"
    assert all("replaced" in row_of(contexts[at], "AGENT.md").reason for at in (0, 1, 2, 3, 5))


async def test_what_record_keeps_of_an_epoch_is_kept_once(talk: Talk) -> None:
    await talk.step()
    await talk.step()
    talk.write("SOUL.md", "Kind: v2")
    await talk.step(refresh=True)

    replies = [event async for event in talk.store.load("s") if event.type == "assistant"]
    kept = [event.metadata["epoch"].keys() - {"tools_after_seq"} for event in replies]
    assert kept == [
        {"asked", "id", "pieces", "pieces_id", "sections", "system_id", "tools", "tools_id"},
        {"id"},
        {"asked", "id", "pieces", "pieces_id", "sections", "system_id", "tools_id"},
    ]


names = st.sampled_from(["AGENT.md", "SOUL.md", "CONTEXT.md", "extra.md"])
edits = st.dictionaries(
    names,
    st.none() | st.sampled_from(["", "Rule.", "@extra.md", "Kind: \udcff", "word " * 40]),
    max_size=2,
)
steps = st.lists(st.tuples(edits, st.sampled_from([{}, {}, {}, {"refresh": True}])), max_size=5)


def apply(talk: Talk, edit: dict[str, str | None]) -> None:
    for name, text in edit.items():
        if text is None:
            (talk.folder / name).unlink(missing_ok=True)
        else:
            (talk.folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))


def unmarked(value: Any) -> Any:
    """Return a payload without cache marks, which move."""
    if is_object(value):
        return {key: unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [unmarked(inner) for inner in value] if is_array(value) else value


def split_payload(context: AssembledContext) -> tuple[Any, list[Any]]:
    """Return what stands in front of the messages, and these."""
    payload = unmarked(context.to_request())
    [name] = {"messages", "input", "contents"} & payload.keys()
    return {key: value for key, value in payload.items() if key != name}, payload[name]


@pytest.mark.parametrize("model", MODELS)
@given(given_steps=steps)
@settings(max_examples=25)
async def test_under_freeze_payloads_only_grow_except_where_a_rewrite_is_announced(
    model: str, given_steps: Sequence[tuple[dict[str, str | None], dict[str, bool]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        talk = Talk(Path(folder), model=model)
        talk.write("AGENT.md", "Book trips.")
        contexts = [await talk.step()]
        for edit, options in given_steps:
            apply(talk, edit)
            contexts.append(await talk.step(**options))

    for before, after in pairwise(contexts):
        if any(entry.rule == "rewrite.system" for entry in after.report.entries):
            asked = {one.name for one in after.report.parameters}
            assert "refresh" in asked, "nothing else rewrites here"
            continue
        (old_head, old), (head, messages) = split_payload(before), split_payload(after)
        assert head == old_head
        assert messages[: len(old)] == old
