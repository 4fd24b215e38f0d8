"""Which sections changed since the last call, and which files are shown as they were."""

import pytest

from context_assembler.stages.hold_system import (
    NO_CALL,
    LastCall,
    SectionChange,
    compare_sections,
    file_states,
    fingerprint_choice,
    frozen_rows,
)
from context_assembler.values.epochs import Epoch, SentEpoch
from context_assembler.values.events import CompactionBody, Provenance, SessionEvent, user_event
from context_assembler.values.options import AssembleOptions
from context_assembler.values.prompt import BootstrapFile, PromptSection

MODEL = "claude-opus-5-5"


def sections(**contents: str) -> tuple[PromptSection, ...]:
    return tuple(PromptSection(name=name, content=text) for name, text in contents.items())


def call(
    contents: dict[str, str] | None = None, *, told: dict[str, str] | None = None, asked: str = ""
) -> LastCall:
    shown = sections(**(contents or {"agent": "a"}))
    epoch = Epoch(sections=shown, told=told or {}, asked=asked)
    made_by = Provenance(provider="anthropic", model=MODEL)
    return LastCall(sent=SentEpoch(epoch=epoch, made_by=made_by, answers_seq=4))


def test_sections_change_appear_and_go() -> None:
    before = sections(agent="a", soul="s", context="c")

    changes = compare_sections(before, sections(agent="a", soul="S", skills="k"))

    assert changes == (
        SectionChange(name="soul", kind="changed"),
        SectionChange(name="context", kind="gone"),
        SectionChange(name="skills", kind="appeared"),
    )
    assert [row.decision for row in frozen_rows(changes)] == ["kept", "kept", "dropped"]


HOLDS = {
    "the same model": ((user_event("hi"),), MODEL, True),
    "another model": ((), "gpt-5.5", False),
    "a compaction before the call": (
        (SessionEvent(body=CompactionBody(summary="s", first_seq=1, last_seq=2), seq=3),),
        MODEL,
        True,
    ),
    "a compaction since": (
        (SessionEvent(body=CompactionBody(summary="s", first_seq=1, last_seq=2), seq=6),),
        MODEL,
        False,
    ),
}


@pytest.mark.parametrize(("events", "model", "holds"), HOLDS.values(), ids=HOLDS.keys())
def test_a_prompt_is_held_until_the_payload_is_another_one_anyway(
    events: tuple[SessionEvent, ...], model: str, holds: bool
) -> None:
    held = call().hold(events, model=model)

    assert held.holds is holds
    assert (held.held_sections is not None) is holds


def test_a_first_call_and_a_caller_who_asks_for_another_prompt_hold_nothing() -> None:
    assert not NO_CALL.hold([], model=MODEL).holds
    assert not call(asked="other").hold([], model=MODEL).holds


def test_what_a_caller_chooses_for_the_prompt_has_a_fingerprint_of_its_own() -> None:
    chosen = [
        fingerprint_choice(AssembleOptions(), agent_id=None),
        fingerprint_choice(AssembleOptions(), agent_id="bot"),
        fingerprint_choice(AssembleOptions(skip_skills=True), agent_id=None),
        fingerprint_choice(AssembleOptions(skill_filter=("pdf",)), agent_id=None),
        fingerprint_choice(AssembleOptions(temperature=0.5), agent_id=None),
    ]

    assert len(set(chosen)) == 4
    assert chosen[0] == chosen[4]


def file(section: str, path: str, text: str = "", **given: object) -> BootstrapFile:
    state = "ok" if text else "missing"
    return BootstrapFile(section=section, path=path, state=state, text=text, **given)  # type: ignore[arg-type]


def test_files_whose_changes_wait_are_shown_as_they_were() -> None:
    last = LastCall(
        sent=call({"agent": "near", "agent:/up/AGENT.md": "far", "soul": "kind"}).sent, holds=True
    )
    files = [
        file("agent", "/AGENT.md", "NEAR"),
        file("agent", "/up/AGENT.md", "FAR", metadata={"template": "jinja2"}),
        file("soul", "/SOUL.md"),
        file("context", "/CONTEXT.md", "new"),
    ]
    rows = frozen_rows(
        compare_sections(
            last.held_sections or (), sections(**{"agent": "NEAR", "agent:/up/AGENT.md": "FAR"})
        )
    )

    shown = last.shown_files(files, rows)

    assert [one.text for one in shown] == ["near", "far", "kind", "new"]
    assert [len(one.warnings) for one in shown] == [1, 1, 1, 0]
    assert "changed on disk" in shown[0].warnings[0]
    assert "it, or what it is filled with, changed" in shown[1].warnings[0]


def test_a_warning_is_untold_until_the_last_call_told_it_of_this_very_state() -> None:
    odd = file("agent", "/AGENT.md", "a", warnings=("odd",), fingerprint="1")
    plain = file("soul", "/SOUL.md", "s")
    states = file_states([odd, plain])

    assert states.keys() == {"/AGENT.md"}
    assert NO_CALL.untold([odd]) == [odd]
    assert call(told=states).untold([odd]) == []
    edited = file("agent", "/AGENT.md", "b", warnings=("odd",), fingerprint="2")
    assert call(told=states).untold([edited]) == [edited]
