"""Settings that cannot work are refused where they are made."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from context_assembler.errors import ConfigurationError, InvalidParameterError
from context_assembler.values.options import (
    ClockSettings,
    CompactionSettings,
    TruncationSettings,
)

WRONG: dict[str, tuple[Callable[..., object], dict[str, Any], str, str]] = {
    "no turns": (TruncationSettings, {"window_turns": 0}, "window_turns", "20"),
    "a step of nothing": (TruncationSettings, {"step_share": 0}, "step_share", "0.33"),
    "an opening of less than nothing": (
        TruncationSettings,
        {"opening_share": -0.1},
        "opening_share",
        "0.3",
    ),
    "an opening that leaves no room": (
        TruncationSettings,
        {"opening_share": 1},
        "opening_share",
        "0.3",
    ),
    "a step of more than all": (TruncationSettings, {"step_share": 1.5}, "step_share", "0.33"),
    "a stub of nothing": (TruncationSettings, {"stub_tokens": 0}, "stub_tokens", "200"),
    "a trigger above the window": (
        CompactionSettings,
        {"trigger_share": 1.5},
        "trigger_share",
        "share",
    ),
    "a target below nothing": (CompactionSettings, {"target_share": -0.1}, "target_share", "share"),
    "a gain of more than all": (CompactionSettings, {"min_gain_share": 2}, "min_gain_share", "sh"),
    "no messages": (CompactionSettings, {"max_messages": 0}, "max_messages", "100"),
    "no calls": (CompactionSettings, {"max_tool_calls": 0}, "max_tool_calls", "50"),
    "less than no growth": (CompactionSettings, {"min_growth_tokens": -1}, "min_growth", "2000"),
    "a zone with a slip": (ClockSettings, {"time_zone": "Europe/Belrin"}, "zone", "Europe/Berlin"),
    "a zone of nowhere": (ClockSettings, {"time_zone": "#####"}, "time_zone", "'UTC'"),
    "no zone": (ClockSettings, {"time_zone": ""}, "time_zone", "UTC"),
    "a continent": (ClockSettings, {"time_zone": "America"}, "time_zone", "America/"),
    "a path": (ClockSettings, {"time_zone": "../../etc/passwd"}, "time_zone", "UTC"),
    "a NUL": (ClockSettings, {"time_zone": "UTC\0"}, "time_zone", "UTC"),
    "a negative gap": (ClockSettings, {"gap_seconds": -1}, "gap_seconds", "600"),
    "no number": (ClockSettings, {"gap_seconds": float("nan")}, "gap_seconds", "600"),
    "an endless gap": (ClockSettings, {"gap_seconds": float("inf")}, "gap_seconds", "600"),
    "a blank format": (ClockSettings, {"format": " "}, "format", "%H:%M"),
    "half a character": (ClockSettings, {"format": "%H \ud800"}, "format", "%H:%M"),
    "a NUL in the format": (ClockSettings, {"format": "%H\0"}, "format", "%H:%M"),
}


@pytest.mark.parametrize(("make", "given", "says", "hint"), WRONG.values(), ids=WRONG.keys())
def test_a_setting_that_cannot_work_is_refused_with_a_hint(
    make: Callable[..., object], given: dict[str, Any], says: str, hint: str
) -> None:
    with pytest.raises(InvalidParameterError, match=says) as caught:
        make(**given)

    assert hint in caught.value.remedy


def test_a_changed_copy_is_checked_too() -> None:
    with pytest.raises(InvalidParameterError, match="window_turns"):
        replace(TruncationSettings(), window_turns=0)


@pytest.mark.parametrize("share", [0.5, 0.6])
def test_the_trigger_has_to_exceed_the_target(share: float) -> None:
    with pytest.raises(ConfigurationError, match="every message would trigger it again"):
        CompactionSettings(trigger_share=0.5, target_share=share)


def test_a_clock_knows_its_zone() -> None:
    assert ClockSettings().zone is UTC
    assert ClockSettings(time_zone="Asia/Tokyo").zone == ZoneInfo("Asia/Tokyo")


WITHOUT_ZONES = """
import sys

sys.modules["tzdata"] = None
from context_assembler.values.options import ClockSettings

print(ClockSettings(time_zone="UTC").zone)
try:
    ClockSettings(time_zone="Europe/Berlin")
except ValueError as error:
    print(error)
"""


def test_where_no_zone_is_known_the_error_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ZONES],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONTZPATH": ""},
    )

    assert done.stdout.startswith("UTC\n")
    assert "pip install tzdata" in done.stdout
