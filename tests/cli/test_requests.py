"""`assemble`, `explain`, `check`, `lint-payload`: what a session's next call would be."""

import json
from asyncio import to_thread
from pathlib import Path

from context_assembler import ContextAssembler
from context_assembler.providers import check_payload
from tests.cli.conftest import CLAUDE, GPT, SAMPLES, STORE, Run

WORK = ("work", *STORE)
TOOLS = ("--tools", str(SAMPLES / "coding_agent.json"))


def test_stdout_is_the_payload_and_nothing_else(stored: Run) -> None:
    first = stored("assemble", *WORK, *CLAUDE, *TOOLS, "--max-context-tokens", "24000")
    again = stored("assemble", *WORK, *CLAUDE, *TOOLS, "--max-context-tokens", "24000", "--json")

    assert first.out == again.out
    assert first.json["model"] == "claude-opus-5-5"
    assert not check_payload("anthropic", first.json)
    assert len(first.json["tools"]) == 5
    assert stored("sessions", *STORE, "--json").json[0]["events"] == 165


def test_options_reach_the_payload(stored: Run) -> None:
    Path("AGENT.md").write_text("You are Bolt.", "utf-8")
    options = ["--provider", "openai_chat", "--bootstrap", ".", "--max-tokens", "500", *TOOLS]
    options += ["--tool-choice", '{"name": "search"}', "--disabled-tools", "run"]

    payload = stored("assemble", *WORK, "-m", "gpt-4.1", *options).json

    assert payload["max_completion_tokens"] == 500
    assert payload["tool_choice"]["function"]["name"] == "search"
    assert "run" not in {tool["function"]["name"] for tool in payload["tools"]}
    assert "You are Bolt." in payload["messages"][0]["content"]


def test_settings_come_from_the_folder_that_is_named(stored: Run) -> None:
    Path("conf").mkdir()
    Path("conf/context-assembler.toml").write_text('[defaults]\nmodel = "gpt-4.1"\n', "utf-8")

    assert stored("assemble", *WORK, "--config", "conf").json["model"] == "gpt-4.1"


def test_warnings_go_to_stderr(stored: Run) -> None:
    told = stored("assemble", *WORK, "-m", "gpt-4o", "--max-context-tokens", "24000")

    assert "Note: " in told.err
    assert json.loads(told.out)


def test_people_see_the_window_what_was_cut_and_why(stored: Run) -> None:
    shown = stored("explain", *WORK, *CLAUDE, *TOOLS, "--max-context-tokens", "24000").out

    for text in (
        "Session work for claude-opus-5-5",
        "▒ history",
        "of 24,000 tokens used",
        " tokens written to the cache",
    ):
        assert text in shown
    for text in ("The history does not fit", "max_context_tokens", "request", "0 broken"):
        assert text in shown


def test_programs_get_the_report(stored: Run) -> None:
    report = stored("explain", *WORK, *GPT, "--strategy", "simple", "--json").json

    assert {"entries", "ledger", "parameters", "warnings"} <= report.keys()
    strategy = {"name": "truncation_strategy", "value": "simple", "layer": "request"}
    assert strategy in report["parameters"]


def test_check_tells_by_its_exit_code(stored: Run) -> None:
    Path("context-assembler.toml").write_text("[compaction]\nmax_tool_calls = 500\n", "utf-8")

    needed = stored("check", *WORK, *CLAUDE, "--max-context-tokens", "24000", "--json")
    fine = stored("check", *WORK, *CLAUDE)

    assert (needed.code, needed.json["needed"], needed.json["feasible"]) == (10, True, True)
    assert needed.json["current_tokens"] > needed.json["threshold"] > needed.json["floor_tokens"]
    assert fine.code == 0
    assert "needed" in fine.out


def test_compact_puts_a_summary_in_the_place_of_what_it_covers(stored: Run) -> None:
    done = stored("compact", *WORK, *CLAUDE, "--keep", "10", "--json")
    again = stored("explain", *WORK, *CLAUDE, "--json").json
    lost = stored("compact", *WORK, *CLAUDE, "--keep", "500")

    assert (done.code, done.json["is_own"]) == (0, True)
    assert done.json["summary_tokens"] * 10 < done.json["covered_tokens"]
    assert "## Open tasks" in done.json["event"]["parts"][0]["text"]
    assert "compaction.covers" in [entry["rule"] for entry in again["entries"]]
    assert (lost.code, "too few to be worth it" in lost.err) == (2, True)


def test_messages_are_fitted_in_their_own_shape(run: Run) -> None:
    text = "word " * 200
    messages = [{"role": "user", "content": f"{number} {text}"} for number in range(20)]
    listed = run("fit", "-", *GPT, "--max-tokens", "1000", stdin=json.dumps(messages).encode())
    request = {"model": "claude-opus-5-5", "system": text, "messages": messages}
    told = run("fit", "-", "--json", "--max-tokens", "2000", stdin=json.dumps(request).encode())

    assert json.loads(listed.out)[-1] == messages[-1]
    assert "of 20 messages" in listed.err
    assert told.json.keys() == {"messages", "indices", "changes", "tokens", "max_tokens"}
    assert told.json["indices"][-1] == 19
    assert 200 < told.json["tokens"] <= told.json["max_tokens"] == 2000


def test_a_payload_is_checked_by_its_provider_s_rules(run: Run) -> None:
    good = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hi."}]}
    bad = {"model": "gpt-4.1", "messages": [{"role": "tool", "content": "?", "tool_call_id": "1"}]}

    fine = run("lint-payload", "-", "--provider", "openai_chat", stdin=json.dumps(good).encode())
    told = run(
        "lint-payload", "-", "--json", "--provider", "openai_chat", stdin=json.dumps(bad).encode()
    )
    shown = run("lint-payload", "-", "--provider", "openai_chat", stdin=json.dumps(bad).encode())

    assert (fine.code, told.code, shown.code) == (0, 12, 12)
    assert "0 broken." in fine.out
    assert told.json[0].keys() == {"rule", "level", "where", "message", "source"}
    assert "1 broken: 1 refused, 0 advice." in shown.out


async def test_a_session_of_a_program_is_explained_with_its_tools(stored: Run) -> None:
    def look() -> str:
        """Look around."""
        return "a field"

    async with ContextAssembler("sqlite:agent.db", tools=[look]) as assembler:
        context = await assembler.assemble("work", model="claude-opus-5-5")
        said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "A."}]}
        usage = {"usage": {"input_tokens": 9, "output_tokens": 1}, "stop_reason": "end_turn"}
        await assembler.record("work", {**said, **usage, "model": "claude-opus-5-5"}, context)
        await assembler.add_user("work", "And now?")

    told = await to_thread(stored, "explain", *WORK, *CLAUDE)

    assert "The last call had tools: pass --tools" in told.err
