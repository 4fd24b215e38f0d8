"""Contexts for providers that cannot read what a context holds: made anew from the session."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from context_assembler.errors import ContextOverflowError
from context_assembler.providers import PROVIDERS
from context_assembler.values.context import AssembledContext, Respell

Remake: TypeAlias = Callable[[str], AssembledContext]
"""Makes a session's request once more, for a provider that is named."""


class Remade:
    """Makes a context anew for each provider that it is asked for, once.

    What a provider sealed says nothing to any other, so that these are sent what it stands for. It
    can be pickled: the contexts for all other providers are made before.

    Args:
        own: Whom the context was made for.
        spell: Spells a context for a provider.
        made: What was made before.
    """

    def __init__(
        self,
        own: str,
        *,
        spell: Respell,
        remake: Remake | None = None,
        made: Mapping[str, AssembledContext] | None = None,
    ) -> None:
        self._own = own
        self._spell = spell
        self._remake = remake
        self._made = dict(made or {})

    def __call__(self, context: AssembledContext, provider: str) -> AssembledContext:
        """Return the context that a payload for that provider is spelled from.

        Raises:
            ContextOverflowError: What may not be dropped does not fit.
        """
        if provider not in self._made:
            made = context if self._remake is None else self._remake(provider)
            self._made[provider] = self._spell(made, provider)
        return self._made[provider]

    def __reduce__(self) -> tuple[Callable[..., "Remade"], tuple[Any, ...]]:
        if self._remake is not None:
            for provider in PROVIDERS.keys() - self._made.keys() - {self._own}:
                with suppress(ContextOverflowError):
                    self._made[provider] = self._spell(self._remake(provider), provider)
        return _restore, (self._own, self._spell, self._made)


def _restore(own: str, spell: Respell, made: Mapping[str, AssembledContext]) -> Remade:
    return Remade(own, spell=spell, made=made)
