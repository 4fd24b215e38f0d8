"""Which sections changed since the last call, and which files are shown as they were."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from context_assembler.stages.hold_system import (
    NO_CALL,
    FittedPrompt,
    FreshPrompt,
    LastCall,
    file_states,
    fingerprint_choice,
    pieces_of,
)
from context_assembler.stages.hold_system.comparing import (
    compare_pieces,
    fingerprint_text,
    tell_differences,
)
from context_assembler.values.epochs import Epoch, PromptPiece, SentEpoch
from context_assembler.values.events import CompactionBody, Provenance, SessionEvent, user_event
from context_assembler.values.options import AssembleOptions
from context_assembler.values.prompt import BootstrapFile, PromptSection, SystemPrompt
from context_assembler.values.report import ReportEntry

MODEL = "claude-opus-5-5"


def section(name: str, content: str, path: str = "") -> PromptSection:
    return PromptSection(name=name, content=content, path=path)


def call(
    *sections: PromptSection,
    wholes: Mapping[str, str] | None = None,
    told: dict[str, str] | None = None,
    asked: str = "",
    cut_for_tokens: int = 0,
    holds: bool = True,
) -> LastCall:
    """Return a call that sent the sections; `wholes` are texts that the window did not hold."""
    whole = [replace(one, content=(wholes or {}).get(one.name, one.content)) for one in sections]
    known = {one.name for one in sections}
    whole += [section(name, text) for name, text in (wholes or {}).items() if name not in known]
    epoch = Epoch(
        sections=sections,
        pieces=pieces_of(whole),
        cut_for_tokens=cut_for_tokens,
        told=told or {},
        asked=asked,
    )
    made_by = Provenance(provider="anthropic", model=MODEL)
    return LastCall(
        sent=SentEpoch(epoch=epoch, made_by=made_by, answers_seq=4), asked="", holds=holds
    )


def fresh(
    *sections: PromptSection, fitted: Mapping[str, str] | None = None, budget_tokens: int = 100
) -> FreshPrompt:
    """Return the prompt by now; of it the window leaves only the texts in `fitted`, if given."""
    left = sections
    if fitted is not None:
        left = tuple(
            replace(one, content=fitted[one.name]) for one in sections if one.name in fitted
        )
    rows = tuple(ReportEntry(kind="section", id=one.name, decision="kept") for one in sections)
    cut = tuple(replace(row, decision="shortened", rule="system.shorten") for row in rows)
    return FreshPrompt(
        built=SystemPrompt(sections=sections),
        fitted=SystemPrompt(sections=left),
        built_rows=rows,
        fitted_rows=rows if fitted is None else cut,
        pieces=pieces_of(sections),
        budget_tokens=budget_tokens,
        count_text=len,
    )


def choose(last: LastCall, prompt: FreshPrompt) -> FittedPrompt:
    held = None if last.held is None else SystemPrompt(sections=last.held.sections)
    return last.choose(prompt, held)


# ---- whether the prompt is held ----


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
    held = call(section("agent", "a"), holds=False).hold(events, model=model)

    assert held.holds is holds
    assert (held.held is not None) is holds


def test_a_first_call_and_a_caller_who_asks_for_another_prompt_hold_nothing() -> None:
    assert not NO_CALL.hold([], model=MODEL).holds
    assert not call(asked="other", holds=False).hold([], model=MODEL).holds


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


SHORT = call(section("agent", "a…"), wholes={"agent": "all"}, cut_for_tokens=100)

WINDOWS = {
    "one as large": (fresh(section("agent", "all"), budget_tokens=100), True),
    "a smaller one that it fits": (fresh(section("agent", "all"), budget_tokens=90), True),
    "a larger one for the whole": (fresh(section("agent", "all"), budget_tokens=101), False),
    "a little more room": (
        fresh(section("agent", "all"), fitted={"agent": "al"}, budget_tokens=120),
        True,
    ),
    "much more room": (
        fresh(section("agent", "all"), fitted={"agent": "al"}, budget_tokens=125),
        False,
    ),
}


@pytest.mark.parametrize(("prompt", "is_held"), WINDOWS.values(), ids=WINDOWS.keys())
def test_a_shortened_prompt_is_held_until_the_window_is_another_one(
    prompt: FreshPrompt, is_held: bool
) -> None:
    chosen = choose(SHORT, prompt)

    assert (chosen.system.sections == (section("agent", "a…"),)) is is_held


def test_a_prompt_that_the_window_would_cut_again_is_not_held() -> None:
    prompt = fresh(section("agent", "new"))

    chosen = SHORT.choose(prompt, SystemPrompt(sections=(section("agent", "a"),)))

    assert chosen.system == prompt.fitted


# ---- what became of each piece ----


def test_pieces_change_appear_and_go() -> None:
    before = pieces_of([section("agent", "a"), section("soul", "s"), section("context", "c")])
    now = pieces_of([section("agent", "a"), section("soul", "S"), section("skills", "k")])

    changes = [(one.name, one.kind) for one in compare_pieces(before, now)]

    assert changes == [
        ("agent", "same"),
        ("soul", "changed"),
        ("context", "gone"),
        ("skills", "appeared"),
    ]


NEAR = section("agent", "near", "/app/AGENT.md")
FAR = section("agent:/AGENT.md", "far", "/AGENT.md")

MOVES = {
    "the nearest is gone": (
        (NEAR, FAR),
        (replace(FAR, name="agent"),),
        [("agent", "gone", ""), (FAR.name, "same", "/AGENT.md")],
    ),
    "a nearer one appears": (
        (replace(FAR, name="agent"),),
        (NEAR, FAR),
        [("agent", "same", "/AGENT.md"), ("agent:/app/AGENT.md", "appeared", "/app/AGENT.md")],
    ),
    "a file is renamed": (
        (NEAR,),
        (replace(NEAR, path="/app/CLAUDE.md"),),
        [("agent", "same", "/app/CLAUDE.md")],
    ),
    "another one takes its place": (
        (NEAR,),
        (section("agent", "other", "/app/CLAUDE.md"),),
        [("agent", "gone", ""), ("agent:/app/CLAUDE.md", "appeared", "/app/CLAUDE.md")],
    ),
    "the same text is of another kind": (
        (NEAR,),
        (section("soul", "near", "/app/SOUL.md"),),
        [("agent", "gone", ""), ("soul", "appeared", "/app/SOUL.md")],
    ),
    "the earlier record has no paths": (
        (section("agent", "old"),),
        (NEAR,),
        [("agent", "changed", "/app/AGENT.md")],
    ),
}


@pytest.mark.parametrize(("before", "now", "expected"), MOVES.values(), ids=MOVES.keys())
def test_a_file_is_known_by_its_path_wherever_it_stands(
    before: tuple[PromptSection, ...],
    now: tuple[PromptSection, ...],
    expected: list[tuple[str, str, str]],
) -> None:
    changes = compare_pieces(pieces_of(before), pieces_of(now))

    assert [(one.name, one.kind, one.now.path if one.now else "") for one in changes] == expected


def test_a_cut_to_another_length_is_told_as_that() -> None:
    short, whole = section("agent", "a…"), section("agent", "all")
    before = Epoch(sections=(short,), pieces=pieces_of([whole]))

    assert list(tell_differences(before, Epoch(sections=(whole,)))) == [
        "agent cut to another length"
    ]
    assert list(tell_differences(before, before)) == []


def test_a_section_that_never_had_room_is_no_difference() -> None:
    kept, lost = section("agent", "a"), section("soul", "s")
    before = Epoch(sections=(kept,), pieces=pieces_of([kept, lost]))

    assert list(tell_differences(before, Epoch(sections=(replace(kept, content="b"),)))) == [
        "agent changed"
    ]


# ---- the rows of a held prompt ----


def row_of(last: LastCall, prompt: FreshPrompt, name: str) -> tuple[str, str]:
    [row] = [row for row in choose(last, prompt).rows if row.id == name]
    return str(row.decision), row.rule


ALL = {"agent": "all"}
LEFT_OUT = call(section("soul", "s"), wholes=ALL, cut_for_tokens=100)

ROWS = {
    "as the files have it": (
        call(section("agent", "all")),
        fresh(section("agent", "all")),
        ("kept", ""),
    ),
    "changed": (
        call(section("agent", "all")),
        fresh(section("agent", "new")),
        ("kept", "system.frozen"),
    ),
    "changed and short": (SHORT, fresh(section("agent", "new")), ("shortened", "system.frozen")),
    "gone": (call(section("agent", "all")), fresh(), ("kept", "system.frozen")),
    "gone and short": (SHORT, fresh(), ("shortened", "system.frozen")),
    "appeared": (
        call(section("soul", "s")),
        fresh(section("agent", "new")),
        ("dropped", "system.frozen"),
    ),
    "short for this window too": (
        SHORT,
        fresh(section("agent", "all"), fitted={"agent": "a…"}),
        ("shortened", "system.shorten"),
    ),
    "short for an earlier one": (
        SHORT,
        fresh(section("agent", "all")),
        ("shortened", "system.held_short"),
    ),
    "left out of an earlier one": (
        LEFT_OUT,
        fresh(section("agent", "all")),
        ("dropped", "system.held_short"),
    ),
    "left out and changed": (
        LEFT_OUT,
        fresh(section("agent", "new")),
        ("dropped", "system.frozen"),
    ),
}


@pytest.mark.parametrize(("last", "prompt", "expected"), ROWS.values(), ids=ROWS.keys())
def test_a_row_says_what_is_sent_of_a_section_and_why(
    last: LastCall, prompt: FreshPrompt, expected: tuple[str, str]
) -> None:
    assert row_of(last, prompt, "agent") == expected


def test_a_section_that_was_left_out_and_is_gone_has_no_row() -> None:
    rows = choose(LEFT_OUT, fresh(section("soul", "s"))).rows

    assert [row.id for row in rows] == ["soul"]


def test_rows_stand_in_the_order_of_what_is_sent() -> None:
    prompt = fresh(section("context", "new"), section("soul", "s"))

    rows = choose(call(section("agent", "a"), section("soul", "s")), prompt).rows

    assert [row.id for row in rows] == ["agent", "soul", "context"]


# ---- the files of a held prompt ----


def file(name: str, path: str, text: str = "", **given: object) -> BootstrapFile:
    plain = BootstrapFile(
        section=name,
        path=path,
        state="ok" if text else "missing",
        text=text,
        source_fingerprint=fingerprint_text(text) if text else "",
    )
    return replace(plain, **given)  # type: ignore[arg-type]


def shown(
    sent: tuple[tuple[str, BootstrapFile], ...], files: list[BootstrapFile]
) -> list[BootstrapFile]:
    """Return how the files are shown while the prompt of other ones, by name, is held."""
    sections = [section(name, one.text, one.path) for name, one in sent]
    epoch = Epoch(sections=tuple(sections), pieces=pieces_of(sections, [one for _, one in sent]))
    made_by = Provenance(provider="anthropic", model=MODEL)
    last = LastCall(sent=SentEpoch(epoch=epoch, made_by=made_by, answers_seq=4), holds=True)
    now = [section(one.section, one.text, one.path) for one in files if one.state == "ok"]
    return last.shown_files(files, now=pieces_of(now, files))


SOUL = file("soul", "/SOUL.md", "kind")
OK = ("kind", "ok")

FILES = {
    "an edit": ({"text": "stern", "source_fingerprint": "new"}, OK, "changed on disk; "),
    "a deletion": ({"text": "", "state": "missing"}, OK, "it is gone; "),
    "a template that is filled otherwise": (
        {"text": "stern", "metadata": {"template": "jinja2"}},
        OK,
        "what it is filled with changed; ",
    ),
    "other settings": ({"text": "stern"}, OK, "what the settings make of it changed; "),
    "a twin": ({"text": "", "state": "blocked"}, OK, "another file says the same by now; "),
    "a fault": (
        {"text": "", "state": "unreadable", "source_fingerprint": "new"},
        OK,
        "changed on disk; ",
    ),
}


@pytest.mark.parametrize(("given", "expected", "reason"), FILES.values(), ids=FILES.keys())
def test_a_file_whose_change_waits_is_shown_as_it_was_with_the_reason(
    given: dict[str, object], expected: tuple[str, str], reason: str
) -> None:
    [one] = shown((("soul", SOUL),), [replace(SOUL, **given)])  # type: ignore[arg-type]

    assert (one.text, one.state) == expected
    assert one.warnings[-1].startswith(reason)
    assert "next rewrite point" in one.warnings[-1]


def test_files_of_a_prompt_that_is_not_held_are_shown_as_they_are() -> None:
    assert NO_CALL.shown_files([SOUL], now=[]) == [SOUL]
    assert shown((("soul", SOUL),), [SOUL]) == [SOUL]


def test_a_file_that_appeared_waits() -> None:
    [one] = shown((), [SOUL])

    assert (one.text, one.state) == ("", "waiting")
    assert one.warnings[0].startswith("it appeared since the epoch began")


def test_a_file_that_is_not_looked_for_any_more_stands_behind_those_of_its_kind() -> None:
    agent, far = file("agent", "/app/AGENT.md", "near"), file("agent", "/AGENT.md", "far")
    sent = (("agent", agent), ("agent:/AGENT.md", far), ("soul", SOUL))

    files = shown(sent, [agent, SOUL])

    assert [one.path for one in files] == ["/app/AGENT.md", "/AGENT.md", "/SOUL.md"]
    assert (files[1].text, files[1].section) == ("far", "agent")
    assert files[1].warnings[0].startswith("it is gone, or another file is read in its place")


def test_a_file_that_is_gone_and_was_left_out_is_shown_as_gone() -> None:
    gone = file("soul", "/SOUL.md")
    lost = PromptPiece(name="soul", path="/SOUL.md", whole=fingerprint_text("kind"))
    far = PromptPiece(name="agent:/AGENT.md", path="/AGENT.md", whole=fingerprint_text("far"))
    epoch = Epoch(pieces=(lost, far))
    made_by = Provenance(provider="anthropic", model=MODEL)
    last = LastCall(sent=SentEpoch(epoch=epoch, made_by=made_by, answers_seq=4), holds=True)

    assert last.shown_files([gone], now=[]) == [gone]


def test_a_record_without_fingerprints_of_files_leaves_open_what_changed() -> None:
    last = call(section("soul", "kind"))
    stern = file("soul", "/SOUL.md", "stern")

    [one] = last.shown_files([stern], now=pieces_of([section("soul", "stern", "/SOUL.md")]))

    assert one.warnings[0].startswith("changed on disk, or what is made of it")


def test_a_warning_is_untold_until_the_last_call_told_it_of_this_very_state() -> None:
    odd = file("agent", "/AGENT.md", "a", warnings=("odd",), fingerprint="1")
    plain = file("soul", "/SOUL.md", "s")
    states = file_states([odd, plain])

    assert states.keys() == {"/AGENT.md"}
    assert NO_CALL.untold([odd]) == [odd]
    assert call(told=states).untold([odd]) == []
    edited = file("agent", "/AGENT.md", "b", warnings=("odd",), fingerprint="2")
    assert call(told=states).untold([edited]) == [edited]
