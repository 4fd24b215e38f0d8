"""Arguments of calls, for formats that have them as an object and never as text."""

from typing import Final

from context_assembler.values.parts import Json, ToolCall

_KEY: Final = "unparsed_arguments"


def arguments_to_write(call: ToolCall) -> dict[str, Json]:
    """Return the arguments as an object; text that never was one, under a key that says so."""
    if call.arguments or call.arguments_json in {None, "", "{}"}:
        return dict(call.arguments)
    return {_KEY: call.arguments_json}
