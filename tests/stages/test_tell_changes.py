"""What is told of a draft that its provider could not take as it was."""

from dataclasses import replace

import pytest

from context_assembler.providers import ANTHROPIC
from context_assembler.stages.tell_changes import count_rows, overlay_rows, warn_of_losses
from context_assembler.testing.word_counter import WordCounter
from context_assembler.values.parts import Base64Source, Image
from context_assembler.values.report import Decision, ReportEntry
from context_assembler.values.tools import ToolSpec
from tests.providers.drafts import HAIKU_45, PIXEL, READ_FILE, assistant, call, draft, user

PICTURE = Image(source=Base64Source(media_type="image/png", data=PIXEL))
BLIND = replace(HAIKU_45, features={"vision": False})


LOOP = "The tool calls in flight began without thinking, so the model goes on without."


def test_rows_tell_what_messages_and_tools_take_before_and_after() -> None:
    counter = WordCounter()
    theirs = ToolSpec(name="theirs", native_specs={"gemini": {}})
    loose = replace(READ_FILE, is_strict=True, input_schema={"type": "object"})
    made = draft(
        [user("go", id="evt_1"), user(PICTURE, id="evt_2")], limits=BLIND, tools=(theirs, loose)
    )
    adapted, rows = ANTHROPIC.adapt(made)

    counted = count_rows(rows, before=made, after=adapted, counter=counter)

    assert [(row.id, row.tokens_before, row.tokens_after) for row in counted] == [
        ("theirs", counter.count_tool(theirs), 0),
        ("read_file", counter.count_tool(loose), counter.count_tool(loose)),
        (
            "evt_2",
            counter.count_message(made.messages[1]),
            counter.count_message(adapted.messages[1]),
        ),
    ]


def test_losses_are_warned_of_once_per_reason() -> None:
    theirs = ToolSpec(name="theirs", native_specs={"gemini": {}})
    talk = [user(PICTURE, id="evt_1"), user(PICTURE, id="evt_2"), assistant(call("c"))]
    made = draft(talk, limits=BLIND, tools=(theirs, READ_FILE), thinking_budget=2000)

    warnings = list(warn_of_losses(ANTHROPIC.adapt(made)[1]))

    assert warnings == [
        "theirs: It exists for gemini alone.",
        "thinking_budget: " + LOOP,
        "An image is left out: the model takes no images. (in 2 messages)",
    ]


def test_a_loss_in_one_message_is_warned_of_in_its_own_words() -> None:
    made = draft([user(PICTURE, id="evt_1")], limits=BLIND)

    warnings = list(warn_of_losses(ANTHROPIC.adapt(made)[1]))

    assert warnings == ["An image is left out: the model takes no images."]


def row(decision: Decision, rule: str, name: str = "search") -> ReportEntry:
    return ReportEntry(kind="tool", id=name, decision=decision, rule=rule, reason="Because.")


OVERLAYS: dict[str, tuple[list[ReportEntry], ReportEntry, list[str]]] = {
    "the piece's own row": ([row("kept", "")], row("repaired", "tool.strict"), ["tool.strict"]),
    "of two of one name the offered one": (
        [row("blocked", "sandbox"), row("kept", "")],
        row("repaired", "tool.strict"),
        ["sandbox", "tool.strict"],
    ),
    "of two that are gone the first one": (
        [row("dropped", "disabled"), row("dropped", "duplicate")],
        row("dropped", "tool.withdrawn"),
        ["tool.withdrawn", "duplicate"],
    ),
    "not what is not offered, by a repair": (
        [row("dropped", "tool.withdrawn")],
        row("repaired", "tool.strict"),
        ["tool.withdrawn"],
    ),
    "another piece stands behind": (
        [row("kept", "")],
        row("dropped", "tool.native", "web"),
        ["", "tool.native"],
    ),
}


@pytest.mark.parametrize(("rows", "change", "rules"), OVERLAYS.values(), ids=OVERLAYS.keys())
def test_a_later_change_is_laid_over_the_row_of_what_is_offered(
    rows: list[ReportEntry], change: ReportEntry, rules: list[str]
) -> None:
    assert [entry.rule for entry in overlay_rows(rows, [change])] == rules
