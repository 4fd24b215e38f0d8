"""The system prompt: which sections it has, in which order, what gives way, and what an epoch holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.ports import PromptSection, ToolSpec
from context_assembler.prompt import (
    BootstrapFile,
    BuiltPrompt,
    SentPrompt,
    SystemPromptBuilder,
    fit_prompt,
    prompt_record,
    summarize_tools,
)


def count(text: str) -> int:
    return len(text.split())


def file(section: str, text: str, *, path: str = "", **more: Any) -> BootstrapFile:
    state = more.pop("state", "ok")
    return BootstrapFile(section, path or f"/{section.upper()}.md", state, text, **more)


def section(name: str, content: str, **more: Any) -> PromptSection:
    return PromptSection(name=name, content=content, **more)


def fates(built: BuiltPrompt) -> dict[str, tuple[str, str]]:
    return {entry.id: (entry.decision, entry.rule) for entry in built.entries}


FILES = [file("agent", "Agent."), file("soul", "Soul."), file("context", "Context.")]


def test_own_sections_alone_make_a_prompt() -> None:
    built = SystemPromptBuilder().build(
        [section("agent", "You book."), section("rules", "Be brief.")]
    )

    assert built.text == "You book.\n\n---\n\nBe brief."
    assert "25 characters: agent, rules" in repr(built)


def test_sections_come_by_priority_and_the_calls_own_addition_after_the_history() -> None:
    built = SystemPromptBuilder(sections=[section("own", "Own.", priority=850)]).build(
        files=FILES,
        session_system=["Session."],
        skills_text="Skills.",
        tools_summary="Tools.",
        additional="Call.",
        datetime_text="Today.",
    )

    order = [one.name for one in built.sections]
    assert order == ["agent", "session", "soul", "own", "context", "skills", "tools", "datetime"]
    assert [(one.name, one.content, one.placement) for one in built.notes] == [
        ("additional", "Call.", "note")
    ]


def test_equal_priorities_keep_their_order_and_the_separator_is_a_setting() -> None:
    builder = SystemPromptBuilder(priorities={"soul": 1000}, separator="\n")

    assert builder.build(files=FILES).text == "Agent.\nSoul.\nContext."


def test_a_standard_name_may_be_the_applications_own_unless_a_file_gives_it() -> None:
    builder = SystemPromptBuilder(sections=[section("soul", "Mine.")])

    alone, beside = builder.build(files=FILES[:1]), builder.build(files=FILES)

    assert alone.text == "Agent.\n\n---\n\nMine."
    assert beside.text == "Agent.\n\n---\n\nSoul.\n\n---\n\nContext."
    assert beside.entries[-1].rule == "overridden"


def test_empty_sections_are_left_out_and_files_of_one_kind_keep_their_paths() -> None:
    outer = file("agent", "Outer.", path="/up/AGENT.md")

    built = SystemPromptBuilder(sections=[section("own", " \n")]).build(files=[*FILES[:1], outer])

    assert [one.name for one in built.sections] == ["agent", "agent:/up/AGENT.md"]
    assert built.sections[1].path == "/up/AGENT.md"
    assert fates(built)["own"] == ("dropped", "empty")


@pytest.mark.parametrize("origin", ["memory", "tool", "file", "user"])
def test_text_of_others_has_no_place_in_the_system_prompt(origin: Any) -> None:
    built = SystemPromptBuilder().build([section("own", "Do this.", origin=origin)])

    assert built.text == ""
    assert [one.content for one in built.notes] == ["Do this."]
    assert fates(built)["own"] == ("kept", "origin")


def test_an_agent_inherits_only_what_it_is_given() -> None:
    builder = SystemPromptBuilder(inherits={"writer": ["soul"]})

    built = builder.build(files=FILES, session_system=["Session."], agent_id="writer")
    other = builder.build(files=FILES, agent_id="reader")

    assert built.text == "Session.\n\n---\n\nSoul."
    assert fates(built)["agent"] == ("dropped", "inherits")
    assert len(other.sections) == 3


REFUSED: dict[str, dict[str, Any]] = {
    "two of a name": {"sections": [section("a", "1"), section("a", "2")]},
    "no name": {"sections": [section(" ", "1")]},
    "the clock's name": {"sections": [section("clock", "1")]},
}


@pytest.mark.parametrize("settings", REFUSED.values(), ids=REFUSED)
def test_sections_that_no_prompt_can_have_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        SystemPromptBuilder(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"priorities": {"sole": 1}},
        {"required": ["sole"]},
        {"inherits": {"a": ["sole"]}},
    ],
)
def test_a_setting_that_names_no_section_says_what_was_meant(settings: dict[str, Any]) -> None:
    with pytest.raises(UnknownOptionError, match="'soul'"):
        SystemPromptBuilder(**settings)


def fit(built: BuiltPrompt, budget: int, *, fixed: int = 0) -> BuiltPrompt:
    return fit_prompt(
        built, count_system=count, count_text=count, budget_tokens=budget, other_fixed_tokens=fixed
    )


LONG = "\n".join(f"line number {number} of this" for number in range(100))


def test_a_prompt_that_fits_stays_and_one_that_does_not_loses_the_least_important() -> None:
    built = SystemPromptBuilder().build(
        files=[file("agent", LONG), file("soul", LONG), file("context", LONG)]
    )

    whole, cut, required = fit(built, 2_000), fit(built, 1_500), fit(built, 300, fixed=100)

    assert whole == built
    assert fates(cut)["context"] == ("shortened", "system.shorten")
    assert count(cut.text) <= 0.8 * 1_500
    assert [one.name for one in required.sections] == ["agent"]
    assert fates(required)["soul"] == fates(required)["context"] == ("dropped", "system.drop")


def test_a_missing_section_is_a_warning_with_its_reason() -> None:
    builder = SystemPromptBuilder(required=["agent", "soul"])
    gone = file("agent", "", state="missing", absence="there is no AGENT.md. Write it.")
    blank = file("soul", "", state="empty")

    missed = list(builder.find_missed([gone, blank, FILES[2]], []))
    none = list(builder.find_missed(FILES, builder.build(files=FILES).sections))
    first = list(SystemPromptBuilder(required=[]).find_missed([blank, gone], []))

    assert missed[0] == "The system prompt lacks 'agent': there is no AGENT.md. Write it."
    assert missed[1].endswith("nothing of /SOUL.md is sent, because it is empty. Correct the file.")
    assert none == []
    assert len(first) == 1


def test_tools_are_summarized_in_one_line_each() -> None:
    tools = [ToolSpec(name="a", description="First.\nSecond."), ToolSpec(name="b")]

    assert summarize_tools(tools) == "Tools:\n\n- a: First.\n- b"
    assert summarize_tools([]) == ""


# ---- epochs ----


def build(*files: BootstrapFile) -> BuiltPrompt:
    return SystemPromptBuilder().build(files=files)


def sent_before(*files: BootstrapFile) -> SentPrompt:
    built = build(*files)
    return SentPrompt(built.text, prompt_record(built, built, files))


AGENT, SOUL = file("agent", "Agent.", path="/AGENT.md"), file("soul", "Soul.", path="/SOUL.md")
EDITED = file("soul", "Another soul.", path="/SOUL.md")
DIFFERENCES = {
    "nothing": ((AGENT, SOUL), ""),
    "an edit": ((AGENT, EDITED), "soul changed"),
    "a file less": ((AGENT,), "soul gone"),
    "a file more": ((AGENT, SOUL, file("context", "C.")), "context appeared"),
    "a folder elsewhere": ((file("agent", "Agent.", path="/new/AGENT.md"), SOUL), ""),
}


@pytest.mark.parametrize(("files", "expected"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_changed_prompt_says_what_changed(
    files: tuple[BootstrapFile, ...], expected: str
) -> None:
    assert sent_before(AGENT, SOUL).differences(build(*files)) == expected


def test_an_edit_waits_and_says_so() -> None:
    now = [AGENT, EDITED, file("context", "C.", path="/C.md")]
    built = build(*now)

    held, files = sent_before(AGENT, SOUL).hold(built, now, built)

    assert held.text == "Agent.\n\n---\n\nSoul."
    assert fates(held)["soul"] == ("kept", "system.frozen")
    assert fates(held)["context"] == ("dropped", "system.frozen")
    assert [(one.section, one.state, one.text) for one in files] == [
        ("agent", "ok", "Agent."),
        ("soul", "ok", "Soul."),
        ("context", "waiting", ""),
    ]
    assert (
        "it has changed on disk; it applies from the next rewrite point on" in files[1].warnings[0]
    )


def test_a_file_that_is_gone_is_sent_until_the_next_rewrite_point() -> None:
    built = build(AGENT)

    held, files = sent_before(AGENT, SOUL).hold(built, [AGENT], built)

    assert held.text == "Agent.\n\n---\n\nSoul."
    assert [(one.path, one.text) for one in files] == [
        ("/AGENT.md", "Agent."),
        ("/SOUL.md", "Soul."),
    ]
    assert fates(held)["soul"] == ("kept", "system.frozen")


def test_a_warning_of_a_file_is_given_once_a_state() -> None:
    odd = AGENT._replace(warnings=("NUL characters were removed",))
    sent = sent_before(odd, SOUL)

    assert sent.unreported([odd, SOUL]) == []
    assert sent.unreported([odd._replace(text="Other.")]) != []


@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=4), budget=st.integers(0, 60))
def test_a_fitted_prompt_is_no_longer_than_its_share_and_remembers_its_sections(
    texts: list[str], budget: int
) -> None:
    builder = SystemPromptBuilder(required=[])
    built = builder.build([section(f"s{at}", text) for at, text in enumerate(texts)])

    fitted = fit_prompt(built, count_system=len, count_text=len, budget_tokens=budget)
    sent = SentPrompt(fitted.text, prompt_record(built, fitted, []))

    assert len(fitted.text) <= max(0.8 * budget, 0)
    assert [(one.name, one.content) for one in sent.sections] == [
        (one.name, one.content) for one in fitted.sections
    ]
