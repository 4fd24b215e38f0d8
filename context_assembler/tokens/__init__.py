"""Token counters: one formula, one row per tokenizer."""

from collections.abc import Hashable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from context_assembler.on_demand import names_on_demand
from context_assembler.tokens.calibrated import CalibratedCounter, calibrate
from context_assembler.tokens.counter import ModelTokenCounter
from context_assembler.tokens.frames import FRAMES, Frame
from context_assembler.tokens.framing import frame_of, reads_signatures, takes_system_turns
from context_assembler.tokens.images import IMAGE_RULES, count_image
from context_assembler.tokens.once import CountOnce
from context_assembler.tokens.tokenizers import TOKEN_COUNTERS, CountingMode, Tokenizer
from context_assembler.values.limits import ModelLimits

if TYPE_CHECKING:
    from context_assembler.tokens.remote import RemoteCounter, fit_exactly
else:
    __getattr__ = names_on_demand(__name__, {"remote": "RemoteCounter fit_exactly"})

__all__ = [
    "FRAMES",
    "IMAGE_RULES",
    "TOKEN_COUNTERS",
    "CalibratedCounter",
    "CountOnce",
    "CountingMode",
    "Frame",
    "ModelTokenCounter",
    "RemoteCounter",
    "TokenCounter",
    "Tokenizer",
    "calibrate",
    "count_image",
    "counter_for",
    "fit_exactly",
]

TokenCounter = ModelTokenCounter

COUNTING_VERSION: Final = 4
"""Goes up whenever any count changes: of the vocabularies, the weights, or the code."""

_MAX_SHARED: Final = 32
_shared: dict[Hashable, ModelTokenCounter] = {}


def counter_for(
    limits: ModelLimits, *, mode: CountingMode = "auto", protocol: str | None = None
) -> ModelTokenCounter:
    """Return the counter for a model; models that count alike share one, and what it remembers.

    Args:
        mode: `auto` counts exactly where the vocabulary is public and estimates elsewhere;
            `estimate` never loads a vocabulary; `exact` insists on one.
        protocol: The provider that spells the request: the same model frames it differently in
            OpenAI's two protocols. By default Chat Completions, where a frame is larger.

    Raises:
        ConfigurationError: `exact` is asked for and the model's vocabulary is not public.
        UnknownOptionError: There is no such mode.
    """
    key = (
        mode,
        frame_of(limits, protocol=protocol),
        limits.encoding,
        limits.provider,
        limits.image_rule,
        limits.tool_prompt_tokens,
        takes_system_turns(limits),
        reads_signatures(limits),
        limits.features.get("vision") is False,
        limits.features.get("pdf") is False,
    )
    counter = _shared.get(key)
    if counter is None:
        counter = ModelTokenCounter(limits, mode=mode, protocol=protocol)
        counter.rest_key = _rest_key(counter.name, (*key, limits.host))
        if len(_shared) < _MAX_SHARED:
            _shared[key] = counter
    return counter


def _rest_key(name: str, settings: Hashable) -> str:
    """Return what tells a counter's counts apart wherever they are kept, in every process."""
    digest = blake2b(repr(settings).encode(), digest_size=8).hexdigest()
    return f"{name} {COUNTING_VERSION} {digest}"
