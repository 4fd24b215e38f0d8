"""What a session costs when it is replayed: per policy, step by step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from context_assembler.errors import InvalidParameterError
from context_assembler.values.forecasts import CacheForecast
from context_assembler.values.given import check_type
from context_assembler.values.options import TruncationStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPolicy:
    """How a replayed session is made to fit; what is `None` is as settled for the session.

    Attributes:
        budget_tokens: Upper bound for the whole input, below the model's own.
        budget_share: The same as a share of the whole session, system prompt and tools included.

    Raises:
        InvalidParameterError: A budget that cannot be, or two of them.
    """

    strategy: TruncationStrategy | None = None
    cache_stable: bool | None = None
    budget_tokens: int | None = None
    budget_share: float | None = None

    def __post_init__(self) -> None:
        if self.strategy not in (None, *get_args(TruncationStrategy)):
            known = ", ".join(get_args(TruncationStrategy))
            raise InvalidParameterError(
                "strategy",
                self.strategy,
                rule=f"must be one of {known}",
                remedy="Name one of them.",
            )
        for name, kinds in (("budget_tokens", (int,)), ("budget_share", (int, float))):
            check_type(name, getattr(self, name), *kinds, type(None), such_as="a number, or None")
        if self.budget_tokens is not None and self.budget_tokens < 1:
            raise InvalidParameterError(
                "budget_tokens",
                self.budget_tokens,
                rule="must be at least 1",
                remedy="Give a number of tokens, or leave it out for the model's own window.",
            )
        if self.budget_share is not None and not 0 < self.budget_share <= 1:
            raise InvalidParameterError(
                "budget_share",
                self.budget_share,
                rule="must be above 0 and at most 1",
                remedy="Give a share of the session, such as 0.5.",
            )
        if self.budget_tokens is not None and self.budget_share is not None:
            raise InvalidParameterError(
                "budget_share",
                self.budget_share,
                rule="excludes budget_tokens",
                remedy="Give one of the two.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStep:
    """One call of a replayed session.

    Attributes:
        seq: The reply that the call led to.
        tokens: The whole input; 0 where it could not be made to fit.
        shared_tokens: What it begins with that the call before began with as well, in whole
            messages: what a cache without rules of its own would have.
        rewrite: Why it does not begin with all that the call before sent; empty where it does.
        overflow: Why it could not be made to fit; empty where it could.
    """

    seq: int
    tokens: int = 0
    budget_tokens: int = 0
    shared_tokens: int = 0
    level: int = 0
    forecast: CacheForecast | None = None
    rewrite: str = ""
    overflow: str = ""

    @property
    def fill(self) -> float:
        """The share of the budget that is used."""
        return self.tokens / self.budget_tokens if self.budget_tokens > 0 else 0.0

    @property
    def shared_share(self) -> float:
        """The share of the input that the call before had as well."""
        return self.shared_tokens / self.tokens if self.tokens else 0.0

    @property
    def usd(self) -> float | None:
        """What its input costs; `None`: not known, or not sent."""
        return None if self.forecast is None else self.forecast.price.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """A session replayed under one policy; `name` says which."""

    name: str
    policy: CutPolicy
    steps: tuple[SimulatedStep, ...]

    @property
    def tokens(self) -> int:
        """The input of all steps."""
        return sum(step.tokens for step in self.steps)

    @property
    def shared_tokens(self) -> int:
        """What the steps had in common with the one before each."""
        return sum(step.shared_tokens for step in self.steps)

    @property
    def read_tokens(self) -> int:
        """What is read from the prompt cache."""
        return self._sum(lambda forecast: forecast.split.read_tokens)

    @property
    def written_tokens(self) -> int:
        """What is written to the prompt cache."""
        return self._sum(lambda forecast: forecast.split.written_tokens)

    @property
    def read_share(self) -> float:
        """The share of the input that is read from the prompt cache."""
        return self.read_tokens / self.tokens if self.tokens else 0.0

    @property
    def usd(self) -> float | None:
        """What the input of the steps that fit costs; `None` where no step does, or a price is not known.

        Where steps overflow, this is less than the session would have cost: see `overflows`.
        """
        prices = [step.usd for step in self._sent]
        known = [usd for usd in prices if usd is not None]
        is_known = len(known) == len(prices) and not self.is_never_sent
        return sum(known) if is_known else None

    @property
    def why_unknown(self) -> str:
        """Why the price is not known; empty where it is."""
        if self.is_never_sent:
            return f"{self.overflows:,} of {len(self.steps):,} calls did not fit."
        forecasts = (step.forecast for step in self.steps)
        reasons = (one.price.why_unknown for one in forecasts if one is not None)
        return next(filter(None, reasons), "")

    @property
    def rewrites(self) -> int:
        """How many steps do not begin with all that the one before sent."""
        return sum(bool(step.rewrite) for step in self.steps)

    @property
    def overflows(self) -> int:
        """How many steps could not be made to fit."""
        return sum(bool(step.overflow) for step in self.steps)

    @property
    def is_never_sent(self) -> bool:
        """Whether there are steps, and none could be made to fit."""
        return bool(self.steps) and not self._sent

    @property
    def mean_fill(self) -> float:
        """The mean share of the budget that is used, over the steps that were sent."""
        return sum(step.fill for step in self._sent) / len(self._sent) if self._sent else 0.0

    @property
    def _sent(self) -> Sequence[SimulatedStep]:
        return [step for step in self.steps if not step.overflow]

    def _sum(self, tokens_of: Callable[[CacheForecast], int]) -> int:
        return sum(tokens_of(step.forecast) for step in self.steps if step.forecast is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A session replayed for one model: everything sent each time, and under each policy.

    `session_tokens` is the last call with everything in it.
    """

    model: str
    session_tokens: int
    everything: SimulatedRun
    runs: tuple[SimulatedRun, ...] = ()

    @property
    def distinct_runs(self) -> tuple[SimulatedRun, ...]:
        """Sending everything, and then the runs, those of one name once."""
        by_name: dict[str, SimulatedRun] = {}
        for run in (self.everything, *self.runs):
            by_name.setdefault(run.name, run)
        return tuple(by_name.values())

    def relative_usd(self, run: SimulatedRun) -> float | None:
        """Return what a run costs, sending everything being 1.

        `None` where that is not known, or calls that did not fit are missing from either.
        """
        check_type("run", run, SimulatedRun, such_as="one of the simulation's runs")
        whole, usd = self.everything.usd, run.usd
        if run.overflows or self.everything.overflows or usd is None or not whole:
            return None
        return usd / whole

    def relative_tokens(self, run: SimulatedRun) -> float:
        """Return the input of a run's steps that fit, sending everything being 1."""
        check_type("run", run, SimulatedRun, such_as="one of the simulation's runs")
        return run.tokens / self.everything.tokens if self.everything.tokens else 1.0
