from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from context_assembler.cli.report_view import (
    parameters_table,
    runs_by_fate,
    runs_of,
    runs_table,
    single_runs,
    verdict,
)
from context_assembler.values.report import (
    Decision,
    ReportEntry,
    ResolvedParameter,
    Violation,
)


def shown(renderable: RenderableType, *, width_chars: int = 120) -> str:
    console = Console(width=width_chars, no_color=True)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def entry(name: str, decision: Decision = "kept", reason: str = "", after: int = 10) -> ReportEntry:
    return ReportEntry(
        kind="message",
        id=name,
        decision=decision,
        tokens_before=10,
        tokens_after=after,
        reason=reason,
        rule=decision,
    )


HISTORY = [
    entry("m1"),
    entry("m2", "dropped", "Too old.", 0),
    entry("m3", "dropped", "Also too old.", 0),
    entry("m4"),
]


def test_neighbours_of_one_fate_are_one_run() -> None:
    runs = runs_of(HISTORY)

    assert [(run.spans, run.count) for run in runs] == [
        ((("m1", "m1"),), 1),
        ((("m2", "m3"),), 2),
        ((("m4", "m4"),), 1),
    ]
    assert runs[1].tokens_before == 20
    assert runs[1].tokens_after == 0
    assert runs[1].reason == "Too old. (and 1 like it)"


def test_runs_by_fate_gather_what_stands_apart() -> None:
    assert [(run.decision, run.count) for run in runs_by_fate(HISTORY)] == [
        ("kept", 2),
        ("dropped", 2),
    ]


def test_no_entry_is_lost_in_any_grouping() -> None:
    for grouped in (runs_of(HISTORY), runs_by_fate(HISTORY), single_runs(HISTORY)):
        assert sum(run.count for run in grouped) == len(HISTORY)


def test_the_table_shows_what_changed_and_why() -> None:
    table = shown(runs_table(runs_of(HISTORY)))

    assert "2 messages: m2 – m3  dropped  20 → 0  Too old." in table
    assert "message m1" in table


SPANS = {
    "an unbroken one is its ends": ("dddd", "4 messages: m0 – m3"),
    "what lies apart is named apart": ("dkddd", "4 messages: m0, m2 – m4"),
    "many are cut in the middle": ("dkdkdkddk", "5 messages: m0, m2, …, m6 – m7"),
}


@pytest.mark.parametrize(("fates", "named"), SPANS.values(), ids=SPANS.keys())
def test_a_run_names_its_stretches(fates: str, named: str) -> None:
    decisions: dict[str, Decision] = {"d": "dropped", "k": "kept"}
    entries = [entry(f"m{at}", decisions[fate]) for at, fate in enumerate(fates)]

    assert f"{named}  dropped" in shown(runs_table(runs_by_fate(entries)))


def test_long_ids_of_messages_are_shortened() -> None:
    table = shown(runs_table(runs_of([entry("0123456789-abc"), entry("m2")])))

    assert "2 messages: 0123456789-… – m2" in table


def test_the_reason_is_readable_beside_long_paths_on_a_narrow_page() -> None:
    folder = "/home/somebody/projects/of/the/company/assistant/with/a/long/name/bootstrap"
    reason = "It is longer than max_file_tokens allows: the middle of it is left out."
    files = [
        ReportEntry(
            kind="file",
            id=f"{folder}/{name}",
            decision="shortened",
            tokens_before=1_250_000,
            tokens_after=25_000,
            reason=reason,
        )
        for name in ("AGENT.md", "CONTEXT.md")
    ]

    lines = shown(runs_table(runs_of(files)), width_chars=80).splitlines()

    place = lines[0].index("why")
    assert " ".join(" ".join(line[place:] for line in lines[1:]).split()) == reason
    named = "".join(line[: lines[0].index("tokens") - 20].strip() for line in lines[1:])
    assert "AGENT.md" in named
    assert "CONTEXT.md" in named


def test_a_path_below_the_current_folder_is_told_from_there(tmp_path: Path) -> None:
    below = ReportEntry(kind="file", id=str(tmp_path / "bootstrap" / "SOUL.md"), decision="kept")

    assert "file bootstrap/SOUL.md  kept" in shown(runs_table(runs_of([below])))


def test_messages_that_were_added_need_no_id() -> None:
    added = [entry(""), entry("")]

    assert "2 messages  kept" in shown(runs_table(runs_of(added)))
    assert shown(runs_table(runs_of(added[:1]))).splitlines()[1].startswith("message  kept")
    assert runs_of([*added, entry("m3")])[0].spans == (("m3", "m3"),)


def test_names_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in shown(runs_table(runs_of([entry("\x1b[2J")])))


def test_settings_are_shown_with_their_layer() -> None:
    table = shown(
        parameters_table(
            [
                ResolvedParameter(name="model", value="gpt-5.5", layer="request"),
                ResolvedParameter(name="stop_sequences", value=("a", "b"), layer="agent"),
                ResolvedParameter(name="disabled_tools", value=(), layer="system"),
                ResolvedParameter(name="max_tokens", value=10_000, layer="session"),
                ResolvedParameter(name="cache_stable", value=True, layer="system"),
                ResolvedParameter(name="top_p", value=0.5, layer="agent"),
            ],
            origins={"cache_stable": "default"},
        )
    )

    assert "model           gpt-5.5  request" in table
    assert "stop_sequences  a, b     agent" in table
    assert "disabled_tools  none     system" in table
    assert "max_tokens      10,000   session" in table
    assert "cache_stable    yes      default" in table
    assert "top_p           0.5      agent" in table


def test_a_verdict_counts_the_broken_rules_and_lists_them() -> None:
    broken = [
        Violation(rule="A1", level="refused", where="messages[0]", message="bad", source=""),
        Violation(rule="C9", level="avoid", where="tools", message="slow", source=""),
    ]

    assert verdict([], provider="anthropic").plain == "Checked against anthropic's rules: 0 broken."
    assert verdict(broken, provider="anthropic").plain.splitlines() == [
        "Checked against anthropic's rules: 2 broken.",
        "refused A1   messages[0]: bad",
        "avoid   C9   tools: slow",
    ]
