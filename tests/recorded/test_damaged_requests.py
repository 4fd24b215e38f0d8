"""Accepted requests, damaged: each can still be sent, and nothing in it is refused."""

import json
import random
from pathlib import Path
from typing import Final

import pytest

from tests.json_damage import damage
from tests.malformed_requests import refusals
from tests.models import MODELS

pytestmark = pytest.mark.recorded

_SAMPLES: Final = 40
_LONGEST_CHARS: Final = 12_000


@pytest.mark.parametrize("provider", MODELS)
async def test_an_accepted_request_that_was_damaged_can_be_sent(
    provider: str, corpus: Path
) -> None:
    lines = (corpus / "requests" / f"accepted_{provider}.jsonl").read_text("utf-8").splitlines()
    drawn = random.Random(f"damage of {provider}")
    rows = drawn.sample([line for line in lines if len(line) < _LONGEST_CHARS], _SAMPLES)

    for row in map(json.loads, rows):
        request = damage(row["request"], times=drawn.randint(1, 2), choose=drawn.randrange)

        assert await refusals(request, read_as=provider) == [], row["id"]
