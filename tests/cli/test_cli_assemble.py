import json
from pathlib import Path

import pytest
import typer

from context_assembler.cli.assemble import _print_payload
from context_assembler.cli.request_options import OPTION_PARAMETERS
from context_assembler.values.context import AssembledContext, ContextMetadata, ProviderFunctions
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.ledger import Ledger
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import OPTION_NAMES
from context_assembler.values.report import Report, Violation
from tests.cli.running import run
from tests.cli.samples import CHAT, STORE, TOOLS, long_chat, stored, write_json

# A command line is one call: there is nothing to bypass; tools come by --tools.
NOT_ON_THE_COMMAND_LINE = {"fresh", "additional_tools"}


def test_every_option_of_assemble_is_an_option_here() -> None:
    assert set(OPTION_PARAMETERS) == set(OPTION_NAMES) - NOT_ON_THE_COMMAND_LINE


def test_stdout_is_the_payload_and_nothing_else() -> None:
    stored()

    ran = run("assemble", "chat", "--sessions", STORE, "--model", "gpt-4.1")

    assert ran == run("assemble", "chat", "--sessions", STORE, "--model", "gpt-4.1", "--json")
    assert ran.exit_code == 0
    assert ran.json["model"] == "gpt-4.1"
    assert [message["role"] for message in ran.json["messages"]][-1] == "user"


def test_people_may_ask_for_an_outline() -> None:
    stored()

    ran = run("assemble", "chat", "--sessions", STORE, "--model", "gpt-4.1", "--outline")

    assert ran.stdout.splitlines()[:2] == ["{", '  "model": "gpt-4.1",']
    assert '  "messages": [' in ran.stdout


def test_the_payload_can_be_another_providers() -> None:
    stored()

    ran = run(
        "assemble", "chat", "--sessions", STORE, "-m", "claude-opus-5-5", "--provider", "anthropic"
    )

    assert ran.json["model"] == "claude-opus-5-5"
    assert isinstance(ran.json["system"], list)


def test_options_reach_the_payload() -> None:
    stored()
    tools = write_json("tools.json", {"tools": TOOLS})
    words = ("--max-tokens", "500", "--stop-sequences", "END", "--stop-sequences", "STOP")

    ran = run(
        *("assemble", "chat", "--sessions", STORE, "-m", "gpt-4.1", "--tools", tools),
        *("--temperature", "0.5", "--tool-choice", '{"name": "list_files"}', *words),
    )

    assert ran.exit_code == 0, ran.stderr
    assert ran.json["temperature"] == 0.5
    assert ran.json["stop"] == ["END", "STOP"]
    assert ran.json["tool_choice"]["function"]["name"] == "list_files"
    assert 500 in ran.json.values()


def test_the_bootstrap_folder_is_put_in_front() -> None:
    stored()
    Path("rules").mkdir()
    Path("rules/AGENT.md").write_text("You are the file reader.")

    ran = run("assemble", "chat", "--sessions", STORE, "-m", "gpt-4.1", "--bootstrap", "rules")

    assert "You are the file reader." in ran.json["messages"][0]["content"]


def test_settings_come_from_the_file_in_the_folder() -> None:
    stored()
    Path("project").mkdir()
    Path("project/context-assembler.toml").write_text('[defaults]\nmodel = "gpt-4.1"\n')

    ran = run("assemble", "chat", "--sessions", STORE, "--config", "project")

    assert ran.json["model"] == "gpt-4.1"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    stored()
    monkeypatch.setenv("CONTEXT_ASSEMBLER_SESSIONS", STORE)
    monkeypatch.setenv("CONTEXT_ASSEMBLER_DEFAULTS__MODEL", "gpt-4.1")

    assert run("assemble", "chat").json["model"] == "gpt-4.1"


@pytest.mark.parametrize("strategy", ["smart", "simple", "sliding"])
def test_a_history_that_is_too_long_is_cut(strategy: str) -> None:
    stored(long_chat())
    words = ("assemble", "chat", "--sessions", STORE, "-m", "gpt-5.5", "--strategy", strategy)

    whole = run(*words)
    cut = run(*words, "--max-context-tokens", "8000", "--window-turns", "3")

    assert cut.exit_code == 0, cut.stderr
    assert len(cut.stdout) < len(whole.stdout) / 2


def test_the_payload_is_the_same_every_time() -> None:
    stored(long_chat())
    words = ("assemble", "chat", "--sessions", STORE, "-m", "claude-opus-5-5")

    assert run(*words).stdout == run(*words).stdout


def test_assembling_writes_nothing() -> None:
    stored()
    before = run("export", "chat", "--sessions", STORE).stdout

    run("assemble", "chat", "--sessions", STORE, "-m", "gpt-5.5")

    assert run("export", "chat", "--sessions", STORE).stdout == before
    assert json.loads(before) == CHAT


def test_a_payload_that_would_be_refused_is_printed_with_the_rules_it_breaks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    context = broken_context(
        Violation(rule="C1", level="refused", where="messages[0]", message="no call", source="")
    )

    with pytest.raises(typer.Exit) as left:
        _print_payload(context, provider=None, as_json=True)

    written = capsys.readouterr()
    assert left.value.exit_code == 12
    assert json.loads(written.out) == {"model": "m"}
    assert "refused C1   messages[0]: no call" in written.err


def test_a_rule_that_merely_harms_changes_no_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    context = broken_context(
        Violation(rule="C9", level="avoid", where="tools", message="slow", source="")
    )

    _print_payload(context, provider=None, as_json=True)

    assert "avoid   C9   tools: slow" in capsys.readouterr().err


def broken_context(violation: Violation) -> AssembledContext:
    """Return a context whose provider finds that rule broken."""
    ledger = Ledger(window_tokens=10, reserve_tokens=0, budget_tokens=10)
    limits = ModelLimits(id="m", provider="openai", window_tokens=10)
    provider = ProviderFunctions(
        render=lambda _: {"model": "m"}, check=lambda _payload, _draft: [violation]
    )
    return AssembledContext(
        draft=Draft(limits=limits, parameters=Parameters(max_tokens=1)),
        metadata=ContextMetadata(
            session_id="chat",
            model_id="m",
            agent_id=None,
            ledger=ledger,
            truncated=False,
            truncated_by=None,
            cut_level=0,
            should_compact=False,
            compaction_reason=None,
            active_skills=(),
            assembly_ms=0.0,
            cache_hit=False,
            last_seq=1,
        ),
        report=Report(ledger=ledger),
        provider="openai_chat",
        functions={"openai_chat": provider},
    )


def test_a_warning_goes_to_stderr() -> None:
    stored()

    ran = run("assemble", "chat", "--sessions", STORE, "-m", "gpt-4o")

    assert "gpt-4o" in ran.stderr
    assert ran.json["model"] == "gpt-4o"


def test_what_memory_has_for_a_query_is_recalled() -> None:
    stored()
    run("memory", "add", "Ada likes window seats.", "--memory", "sqlite:memory.db")
    words = ("assemble", "chat", "--sessions", STORE, "--model", "gpt-4.1")

    asked = run(*words, "--memory", "sqlite:memory.db", "--query", "Where does Ada sit?")
    short = run(*words, "--memory", "sqlite:memory.db", "--query", "Ada", "--recall-tokens", "5")

    assert "window seats" in asked.stdout
    assert asked.exit_code == short.exit_code == 0
    assert "window seats" not in short.stdout


def test_memory_that_is_not_there_is_said() -> None:
    stored()

    ran = run(
        "assemble",
        "chat",
        "--sessions",
        STORE,
        "-m",
        "gpt-4.1",
        "--memory",
        "sqlite:what-we-remember.dat",
    )

    assert ran.exit_code == 2
    assert "There is no file what-we-remember.dat." in ran.stderr
    assert "memory import" in ran.stderr
