"""`demo`, `init` and `lint`: what works without any set-up."""

import re
import tomllib
from pathlib import Path

from context_assembler.options import SETTINGS, AssemblerConfig
from tests.cli.conftest import Run


def test_the_demo_shows_a_window_per_model_and_what_the_cache_keeps(run: Run) -> None:
    shown = run("demo", "-m", "gpt-6.2-sol")

    assert shown.code == 0
    assert "One request for gpt-6.2-sol, within 24,000 tokens" in shown.out
    assert "The history does not fit" in shown.out
    assert "rules: 0 broken." in shown.out
    assert "% of the payload is the last one, byte for byte" in shown.out


def test_programs_get_the_facts_of_the_demo(run: Run) -> None:
    told = run("demo", "--json").json

    assert [one["model"] for one in told["requests"]] == ["claude-opus-5-5", "gpt-6.2-sol"]
    assert all(not one["violations"] for one in told["requests"])
    assert told["requests"][0]["payload"]["messages"][0]["role"] == "user"
    assert told["step"]["begins_with_whole_first"]
    assert told["step"]["share"] > 0.9


def test_init_writes_what_is_missing_and_leaves_the_rest(run: Run) -> None:
    first = run("init", "here", "--samples", "--json").json
    Path("here/bootstrap/AGENT.md").write_text("mine", "utf-8")

    again = run("init", "here", "--json").json

    assert {one["outcome"] for one in first} == {"written"}
    assert "samples/coding_agent.json" in {one["path"].removeprefix("here/") for one in first}
    assert {one["outcome"] for one in again} == {"left alone"}
    assert Path("here/bootstrap/AGENT.md").read_text("utf-8") == "mine"


def test_force_replaces_a_link_and_not_its_target(run: Run) -> None:
    Path("target").write_text("keep", "utf-8")
    Path("context-assembler.toml").symlink_to("target")

    done = run("init", "--force", "--json").json

    assert done[-1] == {"path": "context-assembler.toml", "outcome": "replaced"}
    assert Path("target").read_text("utf-8") == "keep"
    assert not Path("context-assembler.toml").is_symlink()


def test_the_settings_file_shows_every_setting_with_its_default(run: Run) -> None:
    run("init")
    text = Path("context-assembler.toml").read_text("utf-8")
    shown = [line.removeprefix("# ").partition(" = ")[0] for line in text.splitlines()]

    assert {name for options in SETTINGS.values() for name in options} - {"folder"} <= {*shown}
    assert AssemblerConfig().bootstrap == AssemblerConfig(folder=Path("empty")).bootstrap
    uncommented = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    assert tomllib.loads(uncommented)["defaults"]["model"] == "claude-opus-5-5"


def test_a_clean_folder_of_instructions_passes(run: Run) -> None:
    run("init")

    clean = run("lint", "bootstrap")

    assert clean.code == 0
    assert "0 errors, 0 warnings." in clean.out


def test_a_secret_fails_the_lint_with_its_line(run: Run) -> None:
    Path("AGENT.md").write_text("# Me\n\nkey: AKIAIOSFODNN7EXAMPLE\n", "utf-8")

    shown, told = run("lint", "."), run("lint", ".", "--json")

    assert shown.code == told.code == 14
    assert "error line 3:" in shown.out
    assert told.json["files"][0]["findings"][0]["line"] == 3


def test_warnings_fail_the_lint_only_when_strict(run: Run) -> None:
    Path("AGENT.md").write_text("@./gone.md\n", "utf-8")

    assert run("lint", ".").code == 0
    assert run("lint", ".", "--strict").code == 14
