"""Fits a list of messages that you keep yourself, step by step. Needs no key.

python trim_my_list.py
"""

import json
from pathlib import Path
from typing import Any

from context_assembler import FittedMessages, fit_messages
from context_assembler.models import bundled_path

SAMPLE = Path(bundled_path("samples/coding_agent.json"))


def main() -> None:
    request: dict[str, Any] = json.loads(SAMPLE.read_text(encoding="utf-8"))
    messages, fitted = request["messages"], None
    calls = rewrites = 0
    for end in range(2, len(messages)):
        if messages[end]["role"] != "assistant":
            continue  # the model is called when it is its turn
        calls += 1
        before: FittedMessages | None = fitted
        fitted = fit_messages(
            messages[:end],
            model="gpt-5.4",
            max_tokens=20_000,
            tools=request["tools"],
            after=before,
        )
        if before is not None and fitted.messages[: len(before.messages)] != before.messages:
            rewrites += 1
    assert fitted is not None
    print(f"{len(fitted.messages)} of {len(messages)} messages, {fitted.tokens:,} tokens")
    print(f"{rewrites} rewrites in {calls} calls")
    change = fitted.changes[0]
    print(f"messages[{change.id}] was {change.decision}: {change.reason}")


if __name__ == "__main__":
    main()
