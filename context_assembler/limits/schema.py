"""Which fields a row of model_limits.yaml has, and a row merged from several files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from context_assembler.limits.files import merge_rows
from context_assembler.limits.ids import GATEWAYS
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json

ROW_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "provider": (),
    "status": (),
    "retires_on": (),
    "api_id": (),
    "aliases": (),
    "extends": (),
    "limits": ("window", "kind", "input", "output"),
    "features": (),
    "thinking": (
        "kinds",
        "levels",
        "default",
        "disable",
        "prefix_bound",
        "account_bound",
        "min_budget",
        "max_budget",
    ),
    "parameters": (
        "temperature",
        "fixed_temperature",
        "max_temperature",
        "top_p_with_temperature",
        "stop",
    ),
    "cache": ("mode", "min_tokens", "ttls"),
    "prices": (),
    "tokenizer": ("encoding", "images", "frame", "tool_prompt"),
    "hosts": (),
    "meta": ("checked", "sources", "weak", "locked", "remarks"),
}
KNOWN_FEATURES: Final = (
    "tools",
    "parallel_tools",
    "forced_tools",
    "vision",
    "pdf",
    "prefill",
    "mid_conversation_system",
    "cache_breakpoints",
    "chat_tools_with_reasoning",
    "tool_search",
    "thinking",
    "prompt_cache",
)
# What a host may see otherwise than the vendor.
HOST_FIELDS: Final = (
    "status",
    "retires_on",
    "limits",
    "features",
    "thinking",
    "parameters",
    "cache",
    "prices",
    "tokenizer",
)
KNOWN_HOSTS: Final = tuple(sorted(set(GATEWAYS.values())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A merged row: its content, and the file that each field (dotted path) came from."""

    id: str
    content: Mapping[str, Json]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    file: str = "model_limits.yaml"

    def file_of(self, path: str) -> str:
        """Return the file behind a field, or behind the mapping it stands in."""
        while path and path not in self.files:
            path = path.rpartition(".")[0]
        return self.files.get(path, self.file)

    def has_window(self) -> bool:
        """Whether the row names a window, without which nothing can be said of a model."""
        limits = self.content.get("limits", {})
        return not is_object(limits) or limits.get("window") is not None

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that see something otherwise than the vendor."""
        hosts = self.content.get("hosts")
        return tuple(name for name, row in hosts.items() if row) if is_object(hosts) else ()

    def has_own_dates(self, host: str | None) -> bool:
        """Whether the host says itself how long it serves the model."""
        row = self._over(host)
        return "retires_on" in row or "status" in row

    def seen_by(self, host: str | None) -> "Row":
        """Return the row with what this host sees otherwise laid over it.

        Where the host has a date or a status of its own, the vendor's retirement does not count.
        """
        over = self._over(host)
        if not over:
            return self
        content, files = dict(self.content), dict(self.files)
        if self.has_own_dates(host):
            content.pop("retires_on", None)
            if content.get("status") == "retired":
                del content["status"]
        where = f"hosts.{host}."
        for path, file in self.files.items():
            if path.startswith(where):
                files[path.removeprefix(where)] = file
        return replace(self, content=merge_rows(content, over), files=files)

    def leaves(self) -> Iterator[tuple[str, Json, str]]:
        """Yield every field: its dotted path, its value, and the file it came from."""
        waiting = [(name, value) for name, value in reversed([*self.content.items()])]
        while waiting:
            path, value = waiting.pop()
            if is_object(value) and value:
                waiting += [(f"{path}.{name}", inner) for name, inner in reversed([*value.items()])]
            else:
                yield path, value, self.file_of(path)

    def _over(self, host: str | None) -> Mapping[str, Json]:
        hosts = self.content.get("hosts")
        row = hosts.get(host) if is_object(hosts) and host is not None else None
        return row if is_object(row) else {}
