"""Watching which steps go on from the last one."""

from typing import Any

import pytest

from context_assembler import continuing
from context_assembler.continuing import LastStep, go_on


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each step that could go on did."""
    taken: list[bool] = []

    def watched(*args: Any, **kwargs: Any) -> LastStep | None:
        step = go_on(*args, **kwargs)
        taken.append(step is not None)
        return step

    monkeypatch.setattr(continuing, "go_on", watched)
    return taken
