"""Tools that a model finds by searching instead of reading them in every request."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from context_assembler.values.tool_forms import form_of
from context_assembler.values.tools import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearch:
    """How a provider searches for the tools whose definitions it holds back.

    Attributes:
        shows_descriptions: Whether the model reads names and descriptions all the same.
    """

    shows_descriptions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferralRule:
    """Which tools are left to the search.

    Attributes:
        above: How many tools are sent whole at most; with more of them every one is deferred that
            the history does not call. `None`: only tools that ask for it.
        search: What the model's provider has; `None`: no search.
    """

    above: int | None = None
    search: ToolSearch | None = None

    def asking(self, tools: Iterable[ToolSpec]) -> frozenset[str]:
        """Return the names of the tools that should be deferred, leaving aside whether they can be."""
        plain = [tool for tool in tools if not tool.native_specs]
        are_many = self.above is not None and len(plain) > self.above
        return frozenset(
            tool.name
            for tool in plain
            if (are_many if tool.is_deferred is None else tool.is_deferred)
        )


def defer_tools(
    tools: Sequence[ToolSpec], *, rule: DeferralRule, called: Collection[str]
) -> tuple[ToolSpec, ...]:
    """Return the tools, for each of them settled whether it is deferred.

    One that the history calls stays loaded: the model knows it already.

    Args:
        called: The names of these, and of the tool that must be called.
    """
    deferred = rule.asking(tools).difference(called) if rule.search is not None else ()
    return tuple(form_of(tool, is_deferred=tool.name in deferred) for tool in tools)


def is_held_back(tool: ToolSpec) -> bool:
    """Whether we defer the tool; a provider's own says for itself whether it is."""
    return bool(tool.is_deferred) and not tool.native_specs


def loaded_forms(
    tools: Iterable[ToolSpec], search: ToolSearch | None, *, found: Collection[str] = ()
) -> Iterator[ToolSpec]:
    """Yield the tools as the model reads them, shortened where it has yet to search for them.

    Those of which nothing is shown until then are left out.

    Args:
        found: The names of those that it has found.
    """
    for tool in tools:
        if not is_held_back(tool) or search is None or tool.name in found:
            yield tool
        elif search.shows_descriptions:
            yield replace(tool, input_schema={})
