from typing import Any

import pytest

from context_assembler.errors import InvalidParameterError
from context_assembler.limits import get_model_limits
from context_assembler.stages.resolve_defaults import DefaultsResolver, validate_for_model
from context_assembler.stages.resolve_defaults.settling import CallSettler
from context_assembler.values.limits import ModelLimits
from context_assembler.values.options import Settled, UnknownModelPolicy

MODEL = "gpt-4o"


class Settling:
    """A settler whose resolver is counted, and whose registry can change its mind."""

    def __init__(self) -> None:
        self.asked = 0
        self.limits = get_model_limits(MODEL)
        self._resolver = DefaultsResolver({"unknown_model": "error"})
        self.settler = CallSettler(
            resolve=self._resolve, find_limits=self._find, validate=validate_for_model
        )

    def _resolve(self, options: Any, session: Any, _agent_id: str | None) -> Settled:
        self.asked += 1
        return self._resolver.resolve(options, session=session)

    def _find(self, _model_id: str, /, *, unknown: UnknownModelPolicy) -> ModelLimits:
        assert unknown == "error"
        return self.limits

    def ask(self, session: dict[str, Any] | None = None, **options: Any) -> Any:
        return self.settler.settle({"model": MODEL, **options}, session=session, agent_id=None)


def test_the_same_question_is_settled_once() -> None:
    settling = Settling()

    assert settling.ask(temperature=1) is settling.ask(temperature=1)
    assert settling.asked == 1


@pytest.mark.parametrize(
    "other",
    [{"temperature": 1.0}, {}, {"temperature": 1, "session": {"top_p": 0.5}}],
    ids=["another spelling", "fewer options", "other defaults of the session"],
)
def test_another_question_is_settled_by_itself(other: dict[str, Any]) -> None:
    settling = Settling()
    settling.ask(temperature=1)

    answer = settling.ask(**other)

    assert settling.asked == 2
    assert repr(answer) == repr(Settling().ask(**other))


def test_other_limits_of_the_model_are_looked_at() -> None:
    settling = Settling()
    settling.ask()
    settling.limits = get_model_limits("gpt-4o-mini")

    assert settling.ask()[1] is settling.limits
    assert settling.asked == 2


def test_what_may_change_by_itself_is_settled_every_time() -> None:
    settling = Settling()

    for _ in range(2):
        settling.ask(additional_tools=())

    assert settling.asked == 2


def test_what_is_refused_is_refused_again() -> None:
    settling = Settling()

    for _ in range(2):
        with pytest.raises(InvalidParameterError):
            settling.ask(temperature="warm")


def test_what_is_kept_is_bounded() -> None:
    settling = Settling()

    for number in range(300):
        settling.ask(max_tokens=number + 1)
    settling.ask(max_tokens=1)

    assert settling.asked == 301
