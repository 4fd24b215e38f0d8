import pytest

from tests.cli.running import run


def test_the_demo_tells_its_story_on_one_page() -> None:
    ran = run("demo")

    assert ran.exit_code == 0, ran.stderr
    assert ran.stderr == ""
    assert 40 <= len(ran.stdout.splitlines()) <= 70
    assert "1. One request for claude-opus-5-5, at most 24,000 tokens" in ran.stdout
    assert "2. One request for gpt-5.5" in ran.stdout
    assert ran.stdout.count("0 broken.") == 2
    assert "begins with all of the first, byte for byte" in ran.stdout


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "gpt-4.1"])
def test_the_demo_takes_other_models(model: str) -> None:
    ran = run("demo", "--model", model, "--max-context-tokens", "200000")

    assert ran.exit_code == 0, ran.stderr
    assert f"1. One request for {model}" in ran.stdout
    assert "0 broken." in ran.stdout


def test_a_bound_that_cannot_hold_says_what_is_too_big() -> None:
    ran = run("demo", "--max-context-tokens", "100")

    assert ran.exit_code == 2
    assert "tokens are needed" in ran.stderr


def test_programs_get_the_facts_of_the_story() -> None:
    facts = run("demo", "--model", "claude-opus-5-5", "--json").json

    [request] = facts["requests"]
    assert request["payload"]["model"] == "claude-opus-5-5"
    assert request["violations"] == []
    assert {entry["decision"] for entry in request["report"]["entries"]} >= {"kept", "dropped"}
    assert facts["step"]["begins_with_whole_first"] is True
    assert 0.9 < facts["step"]["share"] < 1
