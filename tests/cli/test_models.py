"""`models`: the registry, and whether the models in use are still offered."""

from pathlib import Path

from tests.cli.conftest import Run


def test_models_alone_lists_them(run: Run) -> None:
    shown, told = run("models"), run("models", "--json").json

    assert "claude-opus-5-5" in shown.out
    assert len(told) > 100
    assert {"id", "provider", "window_tokens", "prices", "warnings"} <= told[0].keys()


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
