"""The examples of recall run as they are."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)

    def run(name: str) -> str:
        monkeypatch.setattr(sys, "argv", [name])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_a_question_is_answered_from_memory(printed: Callable[[str], str]) -> None:
    first = printed("recall.py")
    second = printed("recall.py")

    assert "- Ann: Ten kilometres. My knees still hurt." in first
    assert "it stands beside what fits the query" in first
    assert second.count("Ten kilometres") == 1


def test_a_premortem_tells_what_went_wrong(printed: Callable[[str], str]) -> None:
    told = printed("premortem.py")

    assert "in place: 0 of 2 succeeded (0%)" in told
    assert told.index("## Past failures") < told.index("## Principles")


def test_a_stack_goes_on_where_it_stopped(printed: Callable[[str], str]) -> None:
    first = printed("task_stack.py")

    assert first.startswith("Release version 2 > Write the changelog\n")
    assert printed("task_stack.py") == first
