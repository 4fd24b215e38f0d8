"""What a reviewer is told of a folder of instruction files."""

import json
from pathlib import Path
from typing import Any

import pytest

from context_assembler.prompt import BootstrapLoader, Lint, lint_files


def count(text: str) -> int:
    return len(text.split())


def mask(text: str) -> tuple[str, list[str]]:
    return text, ["api key"] * text.count("sk-")


def lint(folder: Path, **settings: Any) -> Lint:
    loader = BootstrapLoader(folder, max_file_tokens=settings.pop("max_file_tokens", 1_000))
    variables = {"agent": "", "date": "today"}
    return lint_files(loader, count_text=count, variables=variables, mask=mask, **settings)


def found(result: Lint) -> list[tuple[str, str, int | None]]:
    return [
        (one.level, one.rule, one.line)
        for file in result.files
        for one in file.findings
        if one.rule != "file.missing"
    ]


FILES: dict[str, tuple[str, str, str, int | None]] = {
    "a secret": ("a\nsk-123", "error", "text.secret", 2),
    "a template": ("---\ntemplate: jinja2\n---\n{{ agnet }}", "error", "file.template", 4),
    "too long": ("word\n" * 2_000, "warning", "file.shortened", None),
    "odd bytes": ("a\0b", "warning", "file.ok", None),
    "nothing": (" ", "warning", "file.empty", None),
}


@pytest.mark.parametrize(("text", "level", "rule", "line"), FILES.values(), ids=FILES)
def test_what_is_wrong_with_a_file_is_found(
    tmp_path: Path, text: str, level: str, rule: str, line: int | None
) -> None:
    (tmp_path / "AGENT.md").write_text(text, encoding="utf-8")

    assert (level, rule, line) in found(lint(tmp_path))


def test_a_copy_and_a_link_are_named(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text("Be kind.", encoding="utf-8")
    (tmp_path / "AGENT.md").symlink_to("SOUL.md")

    rules = [rule for _, rule, _ in found(lint(tmp_path))]

    assert rules == ["file.copied"]


def test_a_required_file_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Be kind.", encoding="utf-8")

    asked, empty = lint(tmp_path, required=["soul"]), lint(tmp_path / "gone")

    levels = [one.level for file in asked.files for one in file.findings]
    assert levels == ["warning", "note"]
    assert empty.count("warning") == 1


def test_the_findings_are_json(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("sk-1", encoding="utf-8")

    read = json.loads(json.dumps(lint(tmp_path).to_json()))

    assert (read["errors"], read["warnings"]) == (1, 0)
    assert read["files"][0]["findings"][0]["message"] == "a secret (api key)"
