import pytest

from tests.cli.running import run


def test_models_alone_lists_them() -> None:
    assert run("models").stdout == run("models", "list").stdout


def test_the_list_is_filtered() -> None:
    ran = run("models", "list", "--provider", "anthropic", "--status", "active", "--json")

    assert ran.json
    assert {(row["provider"], row["status"]) for row in ran.json} == {("anthropic", "active")}


def test_a_filter_that_leaves_nothing_is_an_empty_list() -> None:
    ran = run("models", "list", "--provider", "minimax", "--status", "retired", "--json")

    assert ran.exit_code == 0
    assert ran.json == []


def test_one_model_is_shown_with_every_field() -> None:
    ran = run("models", "show", "anthropic/claude-haiku-5.5")

    assert "claude-haiku-5-5" in ran.stdout
    assert "1,000,000" in ran.stdout
    assert "price 2" in ran.stdout
    assert "is_prefix_bound: yes" in " ".join(ran.stdout.split())


def test_one_model_as_json() -> None:
    ran = run("models", "show", "gpt-4o", "--json")

    assert ran.json["window_tokens"] == 128_000
    assert ran.json["features"]["vision"] is True
    assert isinstance(ran.json["warnings"], list)


def test_a_retired_model_warns() -> None:
    assert (
        "claude-opus-4-1 is retired since 2026-08-05."
        in run("models", "show", "claude-opus-4-1").stdout
    )


UNKNOWN = {
    "model": (("show", "claude-opus-55"), "Did you mean 'claude-opus-5-5'"),
    "vendor": (("list", "--provider", "antropic"), "Did you mean 'anthropic'?"),
    "status": (("list", "--status", "retried"), "Did you mean 'retired' or"),
}


@pytest.mark.parametrize(("words", "said"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_is_unknown_names_the_nearest(words: tuple[str, ...], said: str) -> None:
    ran = run("models", *words)

    assert ran.exit_code == 2
    assert said in ran.stderr


def test_the_registry_is_checked_row_by_row() -> None:
    ran = run("models", "check")

    assert ran.exit_code == 0
    assert "models read" in ran.stdout


def test_a_retired_model_that_was_asked_for_needs_attention() -> None:
    ran = run("models", "check", "claude-opus-4-1", "--json")

    assert ran.exit_code == 13
    assert list(ran.json["warnings"]) == ["claude-opus-4-1"]


def test_a_current_model_needs_none() -> None:
    assert run("models", "check", "claude-opus-5-5").exit_code == 0


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (("--json",), ("list", "--json")),
        (("--json", "list", "--provider", "meta"), ("list", "--provider", "meta", "--json")),
        (("--json", "show", "gpt-4o"), ("show", "gpt-4o", "--json")),
    ],
)
def test_json_may_stand_before_the_command(words: tuple[str, ...], same: tuple[str, ...]) -> None:
    ran = run("models", *words)

    assert ran.json == run("models", *same).json
