"""What one run measures: everything, or what ends within about twenty minutes on two cores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

OURS: Final = "context-assembler"
WARM: Final = "context-assembler-warm"
REFERENCE: Final = "ref-"
# The slowest ones: minutes for one call of a long session, or one replay.
_SLOW: Final = (
    "agent-framework-context-window",
    "autogen-token-limited",
    "litellm-trim",
    "llama-index-chat-memory-buffer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which peers, which sessions, and how long a peer may take.

    Attributes:
        left_out: Names of peers that are not measured, though they might be installed.
        lengths: Messages of the sessions that calls are timed on.
        long_lengths: Longer ones, for those that took less than `long_below_ms` for the longest of
            `lengths`.
        timed_shares: Budgets of the timed calls, as shares of the session.
        rounds: Calls per length.
        timeout_seconds: What one call may take.
        replays: Family and seeds of the sessions of 200 messages that are replayed.
        shares: Budgets of the replays.
        replay_seconds: After so long a replay of one session is cut off.
    """

    left_out: Sequence[str] = ()
    lengths: Sequence[int] = (50, 200, 1_000, 5_000)
    long_lengths: Sequence[int] = (20_000, 100_000)
    long_below_ms: float = 120.0
    timed_shares: Sequence[float] = (0.5,)
    rounds: int = 5
    timeout_seconds: float = 20.0
    replays: Sequence[tuple[str, Sequence[int]]] = (
        ("tau", (0, 1, 2, 3)),
        ("code", (0, 1, 2, 3, 4)),
    )
    shares: Sequence[float] = (0.25, 0.5, 0.9)
    replay_seconds: float = 15.0


USUAL: Final = Plan(left_out=_SLOW)
FULL: Final = Plan(rounds=7, timeout_seconds=150.0, replay_seconds=45.0)
QUICK: Final = Plan(
    left_out=_SLOW,
    lengths=(50, 200, 1_000),
    long_lengths=(5_000,),
    rounds=3,
    timeout_seconds=5.0,
    replays=(("tau", (0,)), ("code", (0,))),
    replay_seconds=8.0,
)
PLANS: Final = {"usual": USUAL, "full": FULL, "quick": QUICK}
