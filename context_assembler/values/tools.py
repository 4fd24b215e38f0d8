"""The tools a model may call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from context_assembler.errors import InvalidParameterError
from context_assembler.values.given import check_known, check_type, listed
from context_assembler.values.message_counts import Countable
from context_assembler.values.parts import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec(Countable):
    """One tool as the model is told of it.

    Attributes:
        input_schema: JSON Schema of the arguments; its root type is `object`.
        source: Where the tool came from (`functions`, `executor`, `listed` …), for the report.
        permission: What it needs, as a dotted name that permission globs match (`fs.read`); `None`
            means the tool's own name.
        is_safe: Whether it may run in sandbox mode; `None` is treated as no.
        is_strict: Whether the provider should enforce the schema; `None` leaves that to it.
        native_specs: By provider, a spec that only this provider understands (a server tool), sent
            verbatim; the tool does not exist for any other provider.
        own_name: What its source calls it, where it is offered under another name.
        is_deferred: Whether the model finds it by searching instead of reading it in every request,
            where the provider can search; `None` leaves that to the setting.
    """

    name: str
    description: str = ""
    input_schema: JsonObject = field(default_factory=dict[str, Json])
    source: str = "listed"
    permission: str | None = None
    is_safe: bool | None = None
    is_strict: bool | None = None
    native_specs: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    own_name: str | None = None
    is_deferred: bool | None = None


ToolChoiceMode: TypeAlias = Literal["auto", "none", "any", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Whether the model must call a tool; `name` is given exactly when `mode` is `tool`.

    `allowed` names the only tools that may be called, of all that are offered (`None`: any of them).
    """

    mode: ToolChoiceMode = "auto"
    name: str | None = None
    allows_parallel: bool | None = None
    allowed: tuple[str, ...] | None = None

    @property
    def spelled(self) -> Json:
        """The choice as a caller would write it."""
        if (self.allows_parallel, self.allowed) == (None, None) and self.name is None:
            return self.mode
        told: dict[str, Json] = {"mode": self.mode} if self.name is None else {"name": self.name}
        if self.allows_parallel is not None:
            told["allows_parallel"] = self.allows_parallel
        if self.allowed is not None:
            told["allowed"] = list(self.allowed)
        return told

    def __post_init__(self) -> None:
        check_known(self.mode, get_args(ToolChoiceMode), kind="mode of a tool choice")
        check_type("name", self.name, str, type(None), such_as="a tool's name, or None")
        check_type(
            "allows_parallel", self.allows_parallel, bool, type(None), such_as="True or False"
        )
        if self.allowed is not None:
            listed("allowed", self.allowed, str, such_as="names of tools, or None for all")
        if (self.mode == "tool") != (self.name is not None):
            raise InvalidParameterError(
                "name",
                self.name,
                rule="must be given exactly when the mode is 'tool'",
                remedy="Pass ToolChoice(mode='tool', name='…'), or leave the name out.",
            )
