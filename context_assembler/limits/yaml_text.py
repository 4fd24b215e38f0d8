"""YAML that a person wrote, read with its traps named."""

from collections.abc import Iterator
from typing import Any, Final

from context_assembler.errors import RegistryError
from context_assembler.values.parts import Json

WHOLE_FILE: Final = "(whole file)"

_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_BOOLEAN_TAG: Final = "tag:yaml.org,2002:bool"


def load_yaml(name: str, text: str, *, shows_lines: bool = True) -> Json:
    """Return what the text holds.

    Args:
        shows_lines: Whether errors say in which line; only where the text is the whole file.

    Raises:
        RegistryError: It is not YAML, a key is given twice, or a key is read as true or false.
    """
    import yaml  # noqa: PLC0415 - importing this module must stay cheap

    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = None
    try:
        loader = loader_class(text)
        root = loader.get_single_node()
        for mapping in _mappings(root):
            _check_keys(name, mapping, shows_lines=shows_lines)
        return None if root is None else loader.construct_document(root)
    except (yaml.YAMLError, RecursionError) as error:
        reason = f"the file is not valid YAML ({' '.join(str(error).split())})"
        raise RegistryError(file=name, row=WHOLE_FILE, field="", reason=reason) from error
    finally:
        if loader is not None:
            loader.dispose()


def _mappings(root: Any) -> Iterator[Any]:
    """Yield every mapping below a node, each once however often it is referred to."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if getattr(node, "id", "") == "mapping":
            yield node
            waiting += [part for pair in node.value for part in pair]
        elif getattr(node, "id", "") == "sequence":
            waiting += node.value


def _check_keys(name: str, mapping: Any, *, shows_lines: bool) -> None:
    seen: set[tuple[str, str]] = set()
    for key, _ in mapping.value:
        if key.id != "scalar" or key.tag == _MERGE_TAG:
            continue
        line = f" (line {key.start_mark.line + 1})" if shows_lines else ""
        if key.tag == _BOOLEAN_TAG:
            reason = f"YAML reads this key as true or false{line}; quote it"
            raise RegistryError(file=name, row=WHOLE_FILE, field=key.value, reason=reason)
        if (key.tag, key.value) in seen:
            reason = f"it is given twice{line}"
            raise RegistryError(file=name, row=WHOLE_FILE, field=key.value, reason=reason)
        seen.add((key.tag, key.value))
