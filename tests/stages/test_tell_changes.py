"""What is told of a draft that its provider could not take as it was."""

from dataclasses import replace

import pytest

from context_assembler.providers.anthropic import ANTHROPIC
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


def test_tools_of_one_reason_share_a_warning_that_names_the_first_ones() -> None:
    tools = tuple(ToolSpec(name=f"t{n}", native_specs={"gemini": {}}) for n in range(1_300))

    one, five, many = (
        list(warn_of_losses(ANTHROPIC.adapt(draft([user("go")], tools=tools[:number]))[1]))
        for number in (1, 5, 1_300)
    )

    assert one == ["t0: It exists for gemini alone."]
    assert five == ["t0, t1, t2, t3, t4: It exists for gemini alone."]
    assert many == ["t0, t1, t2, t3, t4 and 1,295 more: It exists for gemini alone."]


def row(
    decision: Decision, rule: str, name: str = "search", *, reason: str = "Because."
) -> ReportEntry:
    return ReportEntry(kind="tool", id=name, decision=decision, rule=rule, reason=reason)


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


RENAMED = "'find' is the name of a different tool of mcp:a"
FACTS: dict[str, tuple[ReportEntry, ReportEntry, Decision, str]] = {
    "renamed, then told behind the history": (
        row("repaired", "first", reason=RENAMED),
        row("kept", "second", reason="It is told behind."),
        "repaired",
        f"{RENAMED}. It is told behind.",
    ),
    "told behind the history, then not strict": (
        row("kept", "first", reason="It is told behind."),
        row("repaired", "second", reason="It is not strict."),
        "repaired",
        "It is told behind. It is not strict.",
    ),
    "shortened, then left out": (
        row("shortened", "first", reason="It is long."),
        row("dropped", "second", reason="It is too much."),
        "dropped",
        "It is long. It is too much.",
    ),
    "nothing but the change": (
        row("kept", "first", reason=""),
        row("repaired", "second", reason="It is odd."),
        "repaired",
        "It is odd.",
    ),
    "the same twice": (
        row("repaired", "first", reason="It is odd."),
        row("repaired", "second", reason="It is odd."),
        "repaired",
        "It is odd.",
    ),
    "more than before": (
        row("repaired", "first", reason="It is odd."),
        row("repaired", "second", reason="It is odd. It is old."),
        "repaired",
        "It is odd. It is old.",
    ),
}


@pytest.mark.parametrize(
    ("known", "change", "decision", "reason"), FACTS.values(), ids=FACTS.keys()
)
def test_what_was_known_of_a_piece_stays_beside_what_is_told_later(
    known: ReportEntry, change: ReportEntry, decision: Decision, reason: str
) -> None:
    (laid,) = overlay_rows([replace(known, tokens_before=9)], [replace(change, tokens_before=5)])

    assert (laid.decision, laid.rule, laid.reason) == (decision, "second", reason)
    assert laid.tokens_before == (9 if known.decision == "shortened" else 5)
