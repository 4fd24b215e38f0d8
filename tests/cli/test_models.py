"""`models`: the registry, and whether the models in use are still offered."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import SAMPLES, STORE, Run


def test_models_alone_lists_them(run: Run) -> None:
    shown, told = run("models"), run("models", "--json").json

    assert "claude-opus-5-5" in shown.out
    assert len(told) > 100
    assert {"id", "provider", "window_tokens", "prices", "warnings"} <= told[0].keys()


def test_no_id_is_broken_at_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "0f8a2a52-7a52-4a52-9a1b-b4c6d7e8f901-of-a-customer-with-a-long-name"
    run("import", str(SAMPLES / "coding_agent.json"), *STORE, "--session", name)

    listed = run("models").out
    ids = [row["id"] for row in run("models", "--json").json]

    assert all(re.search(rf"(?m)^{re.escape(one)} ", listed) for one in ids)
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert name in run("sessions", *STORE).out
    assert name in run("sessions", "show", name, *STORE).out


def test_the_list_is_filtered(run: Run) -> None:
    told = run("models", "list", "--provider", "anthropic", "--feature", "vision", "--json").json
    none = run("models", "list", "--provider", "nobody", "--json").json

    assert {one["provider"] for one in told} == {"anthropic"}
    assert none == []


def test_one_model_is_shown_with_the_file_that_each_field_comes_from(run: Run) -> None:
    Path("model_limits.local.yaml").write_text(
        "models: {gpt-4.1: {limits: {output: 1000}}}\n", "utf-8"
    )

    shown, told = run("models", "show", "gpt-4.1"), run("models", "show", "gpt-4.1", "--json").json

    assert "limits.window" in shown.out
    assert told["origins"]["limits.window"].endswith("model_limits.yaml")
    assert "source_names" in told


def test_models_in_use_are_checked(run: Run) -> None:
    retiring = run("models", "check", "gpt-4.1", "--json")
    unknown = run("models", "check", "nonsense", "--json")
    current = run("models", "check", "claude-opus-5-5")

    assert (retiring.code, unknown.code, current.code) == (13, 2, 0)
    assert "2027-01-14" in retiring.json["warnings"]["gpt-4.1"][0]
    assert "No limits are known" in unknown.json["warnings"]["nonsense"][0]
    assert "0 broken" in current.out


def test_the_models_of_the_settings_are_in_use(run: Run) -> None:
    Path("context-assembler.toml").write_text('[defaults]\nmodel = "gpt-4.1"\n', "utf-8")

    checked = run("models", "check", "--json")

    assert checked.code == 13
    assert checked.json["warnings"].keys() == {"gpt-4.1"}
    assert checked.json["problems"] == []
    assert checked.json["other_warnings"]
