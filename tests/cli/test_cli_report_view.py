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


def shown(renderable: RenderableType) -> str:
    console = Console(width=120, no_color=True)
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

    assert [(run.first_id, run.last_id, run.count) for run in runs] == [
        ("m1", "m1", 1),
        ("m2", "m3", 2),
        ("m4", "m4", 1),
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

    assert "2 messages m2 – m3  dropped  20 → 0  Too old." in table
    assert "message m1" in table


def test_the_table_says_when_others_lie_between_and_shortens_long_ids() -> None:
    apart = [entry("0123456789-abc", "dropped"), entry("m2"), entry("m3", "dropped")]

    table = shown(runs_table(runs_by_fate(apart)))

    assert "2 messages from 0123456789-… on" in table


def test_messages_that_were_added_need_no_id() -> None:
    added = [entry(""), entry("")]

    assert "2 messages  kept" in shown(runs_table(runs_of(added)))
    assert shown(runs_table(runs_of(added[:1]))).splitlines()[1].startswith("message  kept")
    assert runs_of([*added, entry("m3")])[0].first_id == "m3"


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
            ]
        )
    )

    assert "model           gpt-5.5  request" in table
    assert "stop_sequences  a, b     agent" in table
    assert "disabled_tools  none     system" in table
    assert "max_tokens      10,000   session" in table
    assert "cache_stable    yes      system" in table
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
