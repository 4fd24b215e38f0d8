"""What a session's last call sent, made once more from its events."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from context_assembler.errors import ContextOverflowError
from context_assembler.pipeline import ContextPipeline
from context_assembler.providers import PROVIDERS
from context_assembler.shaped import Made, Shaped
from context_assembler.stages.forecast_cache import CacheOutlook, LastSent
from context_assembler.values.answered_calls import AnsweredCall
from context_assembler.values.changing import changed
from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message


def outlook_of(
    made: Made,
    message_tokens: Sequence[int],
    calls: Sequence[AnsweredCall],
    *,
    pipeline: ContextPipeline,
) -> CacheOutlook:
    """Return what the forecast of a context depends on; see `Made.outlook`."""
    again = _SentBefore(made=made, pipeline=pipeline)
    return made.outlook(message_tokens, calls, account=pipeline.account, last_sent=again)


@dataclass(frozen=True, kw_only=True)
class _SentBefore:
    """Makes once more what a call sent; one that was pickled knows of none."""

    made: Made
    pipeline: ContextPipeline

    def __call__(self, call: AnsweredCall) -> Draft | None:
        """Return what a call for the same model sent; `None`: its settings were others than now.

        It was made from what stands before its reply, either cut as now or whole. The fingerprint
        that the reply recorded tells whether it was.
        """
        messages = self.made.shaped.messages
        length = next((at for at, one in enumerate(messages) if _answers(one, call)), 0)
        if not length:
            return None
        before = changed(self.made.shaped, messages=tuple(messages[:length]), notes=())
        fingerprints = PROVIDERS[self.made.context.provider].fingerprints
        drafts = _ways_to_send(before, self.made, self.pipeline)
        return next((one for one in drafts if fingerprints(one)[-1] == call.fingerprint), None)

    def __reduce__(self) -> tuple[Callable[[], LastSent], tuple[()]]:
        """Return how a copy is made: a pipeline stays in its process."""
        return _forgotten, ()


def _answers(message: Message, call: AnsweredCall) -> bool:
    """Whether a message is the reply to a call; of several to the same one, each is."""
    made_by = message.made_by
    is_behind_it = made_by is not None and made_by.prefix_fingerprint == call.fingerprint
    return message.id == call.event_id or is_behind_it


def _forgotten() -> LastSent:
    return _nothing_known


def _nothing_known(_call: AnsweredCall) -> Draft | None:
    return None


def _ways_to_send(before: Shaped, made: Made, pipeline: ContextPipeline) -> Iterator[Draft]:
    reader = pipeline.reader_of(made.way.limits)
    try:
        _, cut = pipeline.cut(made.way, before)
    except ContextOverflowError:
        pass
    else:
        yield before.draft(made.way, cut.messages, reader)[0]
    yield before.draft(made.way, before.messages, reader)[0]
