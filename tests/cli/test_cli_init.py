import re
import tomllib
from pathlib import Path
from typing import Any

from context_assembler.cli.init import SETTINGS_FILE
from context_assembler.config import AssemblerConfig
from context_assembler.resources import bundled_path
from context_assembler.values.json_shapes import is_object
from tests.cli.running import run

SAMPLES = ("AGENT.md", "CONTEXT.md", "SOUL.md")
# Lines that show an example, since nothing or nothing round is their default.
EXAMPLES = (
    *("account", "agents", "defaults", "tools.defers_above", "truncation.step_share"),
    *("memory.store", "memory.strategy", "memory.embedder", "truncation.max_user_tokens"),
    *("truncation.max_image_side_px", "memory.merges_alike", "memory.fades_half_life_days"),
    "memory.near_duplicate",
)


def uncommented() -> str:
    """Return the settings file with every commented setting in force."""
    return re.sub(r"(?m)^# (?=\[|[\w.]+ = )", "", SETTINGS_FILE.read_text())


def flat(config: AssemblerConfig) -> dict[str, Any]:
    """Return the settings by dotted name."""
    settings = config.model_dump(mode="json", exclude={"folder"})
    named: dict[str, Any] = {}
    for name, value in settings.items():
        if is_object(value):
            named.update({f"{name}.{key}": entry for key, entry in value.items()})
        else:
            named[name] = value
    return named


def test_it_writes_the_samples_and_the_settings_file() -> None:
    ran = run("init", "project")

    assert ran.exit_code == 0
    for name in SAMPLES:
        sample = (bundled_path("bootstrap") / name).read_bytes()
        assert Path("project/bootstrap", name).read_bytes() == sample
    assert Path("project/context-assembler.toml").exists()


def test_the_sample_sessions_are_written_on_request() -> None:
    ran = run("init", "project", "--samples")

    assert ran.exit_code == 0
    written = sorted(path.name for path in Path("project/samples").iterdir())
    assert written == sorted(path.name for path in bundled_path("samples").glob("*.json"))


def test_it_leaves_alone_what_exists_and_says_so() -> None:
    Path("bootstrap").mkdir()
    Path("bootstrap/AGENT.md").write_text("mine")

    ran = run("init")

    assert Path("bootstrap/AGENT.md").read_text() == "mine"
    assert "left alone  bootstrap/AGENT.md" in ran.stdout
    assert "written     bootstrap/SOUL.md" in ran.stdout
    assert "--force" in ran.stdout


def test_force_replaces_but_never_writes_through_a_link() -> None:
    Path("bootstrap").mkdir()
    Path("elsewhere.md").write_text("precious")
    Path("bootstrap/AGENT.md").symlink_to(Path("elsewhere.md").absolute())
    Path("bootstrap/SOUL.md").write_text("old")

    ran = run("init", "--force", "--json")

    assert Path("elsewhere.md").read_text() == "precious"
    assert not Path("bootstrap/AGENT.md").is_symlink()
    assert Path("bootstrap/SOUL.md").read_text() != "old"
    outcomes = {row["path"]: row["outcome"] for row in ran.json}
    assert outcomes["bootstrap/SOUL.md"] == "replaced"
    assert outcomes["context-assembler.toml"] == "written"


def test_a_folder_that_cannot_be_made_is_an_error() -> None:
    Path("file").write_text("")

    ran = run("init", "file/inside")

    assert ran.exit_code == 2
    assert "file/inside" in ran.stderr


def test_the_settings_file_as_written_changes_nothing() -> None:
    run("init", "project")

    assert flat(AssemblerConfig(folder=Path("project"))) == flat(AssemblerConfig())


def test_every_commented_setting_exists_and_shows_its_default() -> None:
    Path("context-assembler.toml").write_text(uncommented())
    Path("empty").mkdir()

    commented, default = flat(AssemblerConfig()), flat(AssemblerConfig(folder=Path("empty")))

    different = {name for name, value in commented.items() if default.get(name) != value}
    assert {name for name in different if not name.startswith(EXAMPLES)} == set()


def test_every_setting_is_in_the_file() -> None:
    written = tomllib.loads(uncommented())

    missing = [
        name
        for name in flat(AssemblerConfig())
        if not name.startswith("defaults")
        for table, _, key in [name.partition(".")]
        if table not in written or (key and key not in written[table])
    ]
    assert missing == []


def test_each_line_can_be_uncommented_alone_since_no_header_is_a_comment() -> None:
    lines = SETTINGS_FILE.read_text().splitlines()

    assert not any(line.startswith("# [") for line in lines)
    agents = tomllib.loads(next(line[2:] for line in lines if line.startswith("# agents.")))
    assert agents["agents"]["reviewer"]["thinking_level"] == "high"
