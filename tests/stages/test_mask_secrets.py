"""Secrets are masked where the settings say so, and the report tells it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from context_assembler import AssemblerConfig, ContextAssembler, Message, Text
from context_assembler.config import SafetySettings
from context_assembler.stages.mask_secrets import SecretMasker
from context_assembler.values.options import MaskedPlace
from context_assembler.values.parts import ToolCall, ToolResult

KEY = "AKIA" + "QWERTYUIOPASDFGH"
MASKED = "[masked: AWS Access Key]"


def result(*texts: str) -> Message:
    content = tuple(map(Text, texts))
    return Message(role="tool", parts=(ToolResult(call_id="c1", content=content),), id="e3")


def call() -> Message:
    return Message(role="assistant", parts=(Text(KEY), ToolCall(call_id="c1", name="env")), id="e2")


def asked() -> Message:
    return Message(role="user", parts=(Text(f"my key is {KEY}"),), id="e1")


@pytest.mark.parametrize(
    ("places", "masked_ids"),
    [
        ((), []),
        (("files",), []),
        (("tool_results",), ["e3"]),
        (("user",), ["e1"]),
        (("user", "tool_results"), ["e1", "e3"]),
    ],
)
def test_secrets_are_masked_in_the_chosen_places_alone(
    places: Sequence[MaskedPlace], masked_ids: list[str]
) -> None:
    messages = [asked(), call(), result("nothing", f"found {KEY} and {KEY}")]

    masked, rows, _ = SecretMasker(places).mask_messages(messages)

    assert [row.id for row in rows] == masked_ids
    for before, after in zip(messages, masked, strict=True):
        assert (after is before) is (before.id not in masked_ids)
        assert (KEY in str(after)) is (KEY in str(before) and before.id not in masked_ids)


def test_the_row_says_how_many_and_of_what_kind() -> None:
    _, [row], _ = SecretMasker(["tool_results"]).mask_messages([result(f"{KEY} {KEY}")])

    assert (row.decision, row.rule) == ("repaired", "secrets.masked")
    assert row.reason == "2 secrets were masked (AWS Access Key)."


def test_the_second_time_is_as_the_first() -> None:
    masker = SecretMasker(["tool_results"])

    first, second = (masker.mask_messages([result(KEY, "plain")]) for _ in range(2))

    assert first == second


async def test_an_assembled_request_has_no_secret_and_the_store_has_it_still(
    tmp_path: Path,
) -> None:
    (tmp_path / "AGENT.md").write_text(f"Use {KEY} for tests.", "utf-8")
    places: tuple[MaskedPlace, ...] = ("files", "tool_results", "user")
    config = AssemblerConfig(safety=SafetySettings(masks_secrets_in=places))
    assembler = ContextAssembler(sessions="memory:", bootstrap=tmp_path, config=config)
    await assembler.add_user("chat", f"my key is {KEY}")

    context = await assembler.assemble("chat", model="gpt-5.5")

    assert KEY not in str(context.to_openai_responses())
    assert context.system_prompt == f"Use {MASKED} for tests."
    assert [row.rule for row in context.report.entries].count("secrets.masked") == 1
    assert any("a secret was masked" in warning for warning in context.report.warnings)
    [event] = [event async for event in assembler.sessions.load("chat")]
    assert KEY in event.text
