import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_assembler.limits import ModelRegistry, default_registry
from context_assembler.limits.refresh import installed_packages
from tests.cli.running import run
from tests.limits.vendor_server import KEYS, serving, vendor_settings


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    default_registry.cache_clear()
    yield
    default_registry.cache_clear()


def override(text: str) -> None:
    Path("model_limits.local.yaml").write_text(text, "utf-8")


def test_models_alone_lists_them() -> None:
    assert run("models").stdout == run("models", "list").stdout


def test_the_list_is_filtered() -> None:
    ran = run("models", "list", "--provider", "anthropic", "--status", "active", "--json")

    assert ran.json
    assert {(row["provider"], row["status"]) for row in ran.json} == {("anthropic", "active")}


def test_the_list_is_filtered_by_what_models_can_do() -> None:
    ran = run("models", "list", "--feature", "documents", "--feature", "prefill", "--json")

    assert "claude-haiku-4-5" in {row["id"] for row in ran.json}
    assert all(row["features"]["pdf"] and row["features"]["prefill"] for row in ran.json)


def test_a_filter_that_leaves_nothing_is_an_empty_list() -> None:
    ran = run("models", "list", "--provider", "minimax", "--status", "retired", "--json")

    assert ran.exit_code == 0
    assert ran.json == []


def test_one_model_is_shown_with_every_field_and_where_it_comes_from() -> None:
    override("models: {claude-haiku-5-5: {limits: {output: 5000}, prices: null}}")

    shown = run("models", "show", "anthropic/claude-haiku-5.5").stdout
    fields = {" ".join(line.split()) for line in shown.splitlines()}

    assert "limits.window 1,000,000 bundled" in fields
    assert "limits.output 5,000 model_limits.local.yaml" in fields
    assert "thinking.prefix_bound yes bundled" in fields
    assert "source L litellm 1.110.2" in " ".join(shown.split())
    assert not any(field.startswith("prices ") for field in fields)


def test_one_model_is_shown_as_its_host_sees_it() -> None:
    shown = run("models", "show", "github_copilot/claude-haiku-5.5").stdout
    fields = {" ".join(line.split()) for line in shown.splitlines()}

    assert "limits.window 128,000 bundled" in fields
    assert "host github_copilot" in fields


def test_one_model_as_json() -> None:
    override("models: {gpt-4o: {limits: {output: 5000, input: null}}}")

    ran = run("models", "show", "gpt-4o", "--json")

    assert ran.json["window_tokens"] == 128_000
    assert ran.json["features"]["vision"] is True
    assert isinstance(ran.json["warnings"], list)
    assert ran.json["origins"]["limits.output"] == "model_limits.local.yaml"
    assert ran.json["origins"]["limits.window"] == "bundled"
    assert ran.json["source_names"]["L"].startswith("litellm")


def test_what_a_host_deletes_is_shown_as_not_given() -> None:
    assert "not given" in run("models", "show", "gpt-5.6-sol").stdout


def test_a_retired_model_warns() -> None:
    assert (
        "claude-opus-4-1 is retired since 2026-08-05."
        in run("models", "show", "claude-opus-4-1").stdout
    )


UNKNOWN = {
    "model": (("show", "claude-opus-55"), "Did you mean 'claude-opus-5-5'"),
    "vendor": (("list", "--provider", "antropic"), "Did you mean 'anthropic'?"),
    "status": (("list", "--status", "retried"), "Did you mean 'retired' or"),
    "feature": (("list", "--feature", "visoin"), "Did you mean 'vision'"),
    "source": (("refresh", "--from", "litelm"), "litelm cannot be read"),
    "source's own name": (("refresh", "--from", "litelm"), "Did you mean 'litellm'?"),
}


@pytest.mark.parametrize(("words", "said"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_is_unknown_names_the_nearest(words: tuple[str, ...], said: str) -> None:
    ran = run("models", *words)

    assert ran.exit_code == 2
    assert said in ran.stderr


def test_the_registry_is_checked_row_by_row() -> None:
    ran = run("models", "check")

    assert ran.exit_code == 0
    assert "models read, 0 broken, 0 in use" in ran.stdout


def test_rows_that_nobody_looked_at_for_long_are_named() -> None:
    override("models: {gpt-5.5: {meta: {checked: 2020-01-01}}}")

    assert run("models", "check", "--stale-days", "1000", "--json").json["stale"] == ["gpt-5.5"]
    assert "gpt-5.5" in run("models", "check", "--stale-days", "1000").stdout.splitlines()[-2]


@pytest.mark.parametrize("days", ["800000", "9" * 30])
def test_no_row_is_older_than_all_days(days: str) -> None:
    ran = run("models", "check", "gpt-5.5", "--stale-days", days, "--json")

    assert ran.exit_code == 0
    assert ran.json["stale"] == []


def test_a_broken_override_fails_the_check_with_every_problem() -> None:
    override("models: {a: {limits: {window: 0}}, b: {colour: 1}, c: {limits: {window: 9}}}")

    ran = run("models", "check", "a", "c", "--json")

    assert ran.exit_code == 2
    assert len(ran.json["problems"]) == 2
    assert "model_limits.local.yaml: model 'a', field 'limits.window'" in ran.json["problems"][0]
    assert "no other file knows this model" in run("models", "check").stdout


def test_a_retired_model_that_was_asked_for_needs_attention() -> None:
    ran = run("models", "check", "claude-opus-4-1", "--json")

    assert ran.exit_code == 13
    assert list(ran.json["warnings"]) == ["claude-opus-4-1"]


def test_a_model_of_the_configuration_needs_attention_too() -> None:
    Path("context-assembler.toml").write_text(
        '[defaults]\nmodel = "gpt-4"\n[agents.helper]\nmodel = "gpt-5.5"\n'
        '[agents.odd]\nmodel = "gpt-55"\n'
    )

    ran = run("models", "check", "--json")

    assert ran.exit_code == 13
    assert list(ran.json["warnings"]) == ["gpt-4", "gpt-55"]
    assert "gpt-4 is retired since" in run("models", "check").stdout


def test_a_current_model_needs_none() -> None:
    assert run("models", "check", "claude-opus-5-5").exit_code == 0


@pytest.mark.parametrize("words", [(), ("--stale-days", "1")])
def test_only_the_models_that_were_asked_for_are_told_of(words: tuple[str, ...]) -> None:
    Path("context-assembler.toml").write_text('[defaults]\nmodel = "gpt-4"\n')

    ran = run("models", "check", "claude-opus-4-1", "gpt-5.5", *words, "--json").json
    shown = run("models", "check", "claude-opus-4-1", "gpt-5.5", *words).stdout

    assert list(ran["warnings"]) == ["claude-opus-4-1"]
    assert ran["other_warnings"] == {}
    assert set(ran["stale"]) <= {"claude-opus-4-1", "gpt-5.5"}
    assert "1 of 2 asked for need attention" in shown
    assert "gpt-4o" not in shown


def test_an_unknown_model_is_wrong_input() -> None:
    ran = run("models", "check", "gpt-55")

    assert ran.exit_code == 2
    assert "No limits are known for model 'gpt-55'" in ran.stderr
    assert "1 unknown" in ran.stdout
    assert list(run("models", "check", "gpt-55", "--json").json["warnings"]) == ["gpt-55"]


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


@pytest.fixture
def models_dev() -> str:
    """A file of our own making, in the layout of models.dev's api.json."""
    models: dict[str, Any] = {
        "gpt-5.5": {"limit": {"context": 1_050_000, "output": 200_000}, "cost": {"input": 5}},
        "gpt-next": {"limit": {"context": 1}},
    }
    Path("api.json").write_text(json.dumps({"openai": {"models": models}}))
    return "api.json"


def test_a_refresh_is_printed_as_a_diff_and_changes_nothing(models_dev: str) -> None:
    before = sorted(Path().iterdir())

    ran = run("models", "refresh", "--from", models_dev)

    assert ran.stdout.splitlines() == [
        "@@ gpt-5.5 @@",
        "-limits.output: 128,000",
        "+limits.output: 200,000    [models.dev] review: one source only",
        "1 change proposed, 1 of them to be reviewed; asked: models.dev.",
    ]
    assert sorted(Path().iterdir()) == before


def test_a_refresh_as_json_says_who_says_what(models_dev: str) -> None:
    ran = run("models", "refresh", "--from", models_dev, "--json")

    (change,) = ran.json["changes"]
    assert (change["model"], change["previous"], change["proposed"]) == ("gpt-5.5", 128000, 200000)
    assert change["claims"][0]["source"]["sha256"] == ran.json["sources"][0]["sha256"]


def test_a_refresh_is_written_where_asked_and_never_over_a_file(models_dev: str) -> None:
    first = run("models", "refresh", "--from", models_dev, "--write", "proposal.yaml")
    second = run("models", "refresh", "--from", models_dev, "--write", "proposal.yaml")

    assert "Written to proposal.yaml. Nothing else was changed." in first.stdout
    assert second.exit_code == 2
    assert "cannot be written" in second.stderr
    proposal = Path("proposal.yaml")
    assert "# limits: {output: 200000}" in proposal.read_text("utf-8")
    assert ModelRegistry(overrides=[proposal]).get("gpt-5.5").output_tokens == 128_000


def test_a_refresh_asks_the_vendors_whose_keys_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as base_url:
        for name, value in vendor_settings(base_url).items():
            monkeypatch.setenv(name, value)
        asked = run("models", "refresh", "--from", "anthropic", "--from", "google")
        ran = run("models", "refresh")

    assert "[anthropic Models API] auto" in asked.stdout
    assert "anthropic Models API, openai Models API, google Models API" in ran.stdout
    assert "No row for what anthropic offers: claude-fable-6." in ran.stdout


def test_a_source_that_fails_is_named_and_the_others_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving() as base_url:
        for name, value in vendor_settings(base_url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{base_url}/nowhere")
        ran = run("models", "refresh", "--json")

    assert ran.exit_code == 0
    assert "The Models API of openai did not answer" in ran.stderr
    assert "anthropic Models API" in {source["name"] for source in ran.json["sources"]}


def test_an_installed_package_is_read() -> None:
    if "litellm" not in installed_packages():
        pytest.skip("litellm is not installed")

    ran = run("models", "refresh", "--from", "litellm", "--json")

    assert ran.json["sources"][0]["name"] == "litellm"


def test_with_nothing_to_compare_with_the_error_says_what_would_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.path", [])

    ran = run("models", "refresh")

    assert ran.exit_code == 2
    assert "ANTHROPIC_API_KEY" in ran.stderr
