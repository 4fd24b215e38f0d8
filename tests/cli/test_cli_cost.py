import asyncio
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from context_assembler import ContextAssembler, Simulation
from context_assembler.cli.cost import forecast_line, spell_usd
from context_assembler.cli.opening import opened_store
from context_assembler.testing import event_log
from context_assembler.values.events import Provenance, assistant_event
from context_assembler.values.forecasts import CacheForecast
from context_assembler.values.prices import InputPrice
from context_assembler.values.prompt_caches import CacheSplit
from tests.cli.running import run
from tests.cli.samples import STORE, long_chat, stored, write_json

CHAT = ("chat", "--sessions", STORE, "--model", "claude-opus-5-5")


def test_people_see_what_each_policy_costs() -> None:
    stored(long_chat())

    shown = run("explain", *CHAT, "--cost", "--budget", "50%", "--budget", "12,000").stdout

    assert "60 calls" in shown
    rows = [line for line in shown.splitlines() if "12,000" in line]
    assert [row.split(",")[0] for row in rows] == ["smart", "smart", "simple", "simple", "sliding"]
    assert "$" in shown
    assert "rewrites: calls that" in " ".join(shown.split())


def test_programs_get_every_step() -> None:
    stored(long_chat(turns=20))

    told = run("explain", *CHAT, "--cost", "--budget", "40%", "--json").json

    assert told["model"] == "claude-opus-5-5"
    everything, *runs = told["runs"]
    assert everything["name"] == "everything"
    assert len({one["name"] for one in runs}) == len(runs)
    assert {len(one["steps"]) for one in told["runs"]} == {20}
    assert all(one["relative_usd"] > 0 for one in runs)
    assert any(step["rewrite"] for one in runs for step in one["steps"])


def test_a_chart_is_written_where_it_is_wanted() -> None:
    stored(long_chat(turns=5))

    ran = run("explain", *CHAT, "--cost", "--svg", "cost.svg")

    assert "The chart is in cost.svg" in ran.stderr
    assert ET.parse("cost.svg").getroot().tag.endswith("svg")


def test_a_session_that_fits_says_how_to_see_more() -> None:
    stored(long_chat(turns=3))

    shown = run("explain", *CHAT, "--cost").stdout

    assert "--budget 50%" in shown


def test_what_cuts_nothing_is_one_row() -> None:
    stored(long_chat(turns=3))

    shown = run("explain", *CHAT, "--cost").stdout

    assert "everything" in shown
    assert "smart" not in shown


def test_calls_that_do_not_fit_have_no_cost() -> None:
    stored(long_chat(turns=2))
    words = ("explain", *CHAT, "--cost", "--budget", "10")

    shown = run(*words).stdout
    told = run(*words, "--json").json

    row = next(line for line in shown.splitlines() if line.startswith("simple, no steps, 10"))
    assert row.split()[-5:] == ["2", "of", "2", "–", "–"]
    assert "2 of 2 calls did not fit under 5 policies; they have no cost." in shown
    run_json = next(one for one in told["runs"] if one["name"] == "simple, no steps, 10")
    assert (run_json["usd"], run_json["relative_usd"]) == (None, None)
    assert run_json["why_unknown"] == "2 of 2 calls did not fit."


def test_what_some_calls_cost_is_not_held_against_what_all_would() -> None:
    stored(long_chat(turns=3, words=(2, 2, 2_000)))
    words = ("explain", *CHAT, "--cost", "--budget", "100")

    told = run(*words, "--json").json

    some = [one for one in told["runs"] if 0 < one["overflows"] < len(one["steps"])]
    assert some
    assert all(one["usd"] > 0 and one["relative_usd"] is None for one in some)


def test_a_session_without_replies_has_nothing_to_replay() -> None:
    stored([{"role": "user", "content": "Hello."}])

    shown = run("explain", *CHAT, "--cost").stdout

    assert "No reply is recorded" in shown


def test_a_model_without_a_price_says_so() -> None:
    stored(long_chat(turns=3))
    words = ("chat", "--sessions", STORE, "-m", "my-own", "--unknown-model", "conservative")

    shown = run("explain", *words, "--cost").stdout

    assert "unknown" in shown
    assert "has no price" in " ".join(shown.split())


def test_a_share_of_more_than_all_says_how_much_there_is() -> None:
    stored(long_chat(turns=1))

    ran = run("explain", *CHAT, "--cost", "--budget", "120%")

    assert "Write at most 100%" in ran.stderr


@pytest.mark.parametrize("budget", ["0", "none", "0%", "-5", "%"])
def test_a_budget_that_is_none_is_refused(budget: str) -> None:
    stored(long_chat(turns=1))

    ran = run("explain", *CHAT, "--cost", f"--budget={budget}")

    assert ran.exit_code != 0
    assert "is no budget" in ran.stderr


@pytest.mark.parametrize("words", [("--budget", "50%"), ("--svg", "cost.svg")])
def test_what_belongs_to_a_replay_needs_one(words: tuple[str, ...]) -> None:
    stored(long_chat(turns=1))

    ran = run("explain", *CHAT, *words)

    assert ran.exit_code != 0
    assert "Add --cost" in ran.stderr
    assert not Path("cost.svg").exists()


def test_explain_tells_what_the_next_call_finds_in_the_prompt_cache() -> None:
    stored(long_chat(turns=5))

    shown = " ".join(run("explain", *CHAT).stdout.split())
    told = run("explain", *CHAT, "--json").stdout

    assert "Prompt cache 0 tokens will be read" in shown
    assert "without a cache" in shown
    assert json.loads(told)["forecast"]["split"]["written_tokens"] > 0


def test_explain_tells_where_the_prefix_of_the_last_call_broke() -> None:
    made_by = Provenance(provider="openai_chat", model="gpt-4o", prefix_fingerprint="f")
    events = [*event_log("U Hello."), assistant_event("Hi.", made_by=made_by), *event_log("U Yes?")]

    async def store() -> None:
        async with opened_store(STORE, creates=True) as opened:
            await opened.append("chat", events)

    asyncio.run(store())

    shown = " ".join(run("explain", *CHAT).stdout.split())

    assert "It stops to be what the last call was at model claude-opus-5-5" in shown
    assert "gpt-4o over openai_chat" in shown
    assert "claude-opus-5-5 caches no prompt of fewer than 512 tokens." in shown


PRICES = {None: "unknown", 0.0: "$0.00", 0.01234: "$0.0123", 1.5: "$1.50", 1234.5: "$1,234.50"}


@pytest.mark.parametrize(("usd", "spelled"), PRICES.items())
def test_prices_are_spelled_for_people(usd: float | None, spelled: str) -> None:
    assert spell_usd(usd) == spelled


def test_a_price_that_is_not_known_is_told_with_its_reason() -> None:
    price = InputPrice(usd=None, uncached_usd=None, why_unknown="Nobody knows.")

    line = forecast_line(CacheForecast(split=CacheSplit(uncached_tokens=7), price=price))

    assert (
        line == "0 tokens will be read, 0 written, 7 neither; the price is not known: Nobody knows."
    )


def test_figures_without_the_tools_that_a_session_calls_say_so() -> None:
    stored()

    shown = run("explain", *CHAT, "--cost").stdout
    told = run("explain", *CHAT, "--cost", "--json").json

    assert "calls tools that are not given here (list_files): pass --tools" in one_space(shown)
    assert told["warnings"][0] in one_space(shown)


def test_with_the_tools_of_a_payload_the_figures_are_those_of_the_program() -> None:
    def list_files(path: str) -> str:
        """List a folder."""
        return path

    stored()
    simulation, payload = asyncio.run(_replayed_by_a_program(list_files))
    write_json("tools.json", payload["tools"])

    told = run("explain", *CHAT, "--cost", "--tools", "tools.json", "--json").json

    assert told["warnings"] == []
    assert told["runs"][0]["tokens"] == simulation.everything.tokens


async def _replayed_by_a_program(tool: Any) -> tuple[Simulation, dict[str, Any]]:
    async with opened_store(STORE) as store:
        assembler = ContextAssembler(store, tools=[tool])
        simulation = await assembler.simulate("chat", model="claude-opus-5-5")
        context = await assembler.assemble("chat", model="claude-opus-5-5", max_tokens=1000)
        return simulation, context.to_anthropic()


def one_space(text: str) -> str:
    return " ".join(text.split())
