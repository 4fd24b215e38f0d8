"""What the integrations share: `fit_messages()` for the lists of many conversations."""

import inspect
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

from cachetools import LRUCache

from context_assembler.errors import MissingModelError
from context_assembler.fit import FittedMessages, fit_messages
from context_assembler.models import get_model_limits

_CONVERSATIONS: Final = 32  # that go on cheaply; any other is read again


class Fitter:
    """Fits lists of messages; of a list that has grown, it reads only what is new.

    Args:
        model: The model whose rules and limits apply; by default the one that the framework calls.
        on_fit: Called with the `FittedMessages` before each request.
        settings: Those of `fit_messages`: `max_tokens`, `strategy`, `keep_last_turns` and others.
    """

    def __init__(
        self,
        model: Any = None,
        on_fit: Callable[[FittedMessages], object] | None = None,
        **settings: Any,
    ) -> None:
        inspect.signature(fit_messages).bind([], model=model, **settings)
        self.model, self.on_fit, self.settings = model, on_fit, settings
        self._last: LRUCache[int, FittedMessages] = LRUCache(_CONVERSATIONS)
        self._lock = Lock()

    def fit(self, messages: Sequence[Any], *, model: Any = None, **counted: Any) -> FittedMessages:
        """Return what fits; `model` is the framework's, `counted` its system prompt and tools."""
        chosen, key = self.model or model, hash(repr([*messages[:2]]))  # these may be large
        if not chosen:
            raise MissingModelError(layers=("integration", "framework"))
        with self._lock:
            before = self._last.get(key)
        limits = get_model_limits(chosen) if isinstance(chosen, str) else chosen
        taken = {
            **limits.features,
            "chat_tools_with_reasoning": True,
        }  # the framework chose the API
        limits, settings = limits._replace(features=taken), {**self.settings, **counted}
        fitted = fit_messages(messages, model=limits, after=before, **settings)
        with self._lock:
            self._last[key] = fitted
        if self.on_fit is not None:
            self.on_fit(fitted)
        return fitted
