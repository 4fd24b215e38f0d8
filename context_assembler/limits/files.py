"""The text of a model_limits.yaml, taken apart into rows that are parsed when asked for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from context_assembler.errors import InvalidParameterError, RegistryError
from context_assembler.limits.yaml_text import WHOLE_FILE, load_yaml
from context_assembler.values.given import check_known, check_type, listed
from context_assembler.values.json_bounds import MAX_JSON_DEPTH, nests_too_deeply
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

_ROW_START: Final = re.compile(r"^  (?=[^\s#])", re.MULTILINE)
_ROW_NAME: Final = re.compile(r"([^\s:'\"]+):\n")
_ALIASES: Final = re.compile(r"^    aliases: \[(.*)\]$", re.MULTILINE)
_SECTIONS: Final = ("models", "sources")
# What deletes in here is kept until a host is asked for: only then is it laid over the row.
_LAID_LATER: Final = "hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFile:
    """The rows of one file, or those registered by code.

    A row that is `None` deletes the row of that id. `unread` holds rows as text until somebody asks
    for them: parsing all of the bundled file takes longer than everything else at start. `head` is
    the text that holds the table of sources.
    """

    name: str
    rows: dict[str, JsonObject | None] = field(default_factory=dict[str, JsonObject | None])
    unread: dict[str, str] = field(default_factory=dict[str, str])
    head: str = ""

    def sources(self) -> dict[str, str]:
        """Return the file's own table of source codes."""
        content = load_yaml(self.name, self.head) if self.head else None
        table: object = content.get("sources") if is_object(content) else None
        return {code: str(text) for code, text in table.items()} if is_object(table) else {}

    def ids(self) -> list[str]:
        """Return the ids of the rows, in order."""
        return list(dict.fromkeys([*self.unread, *self.rows]))

    def row(self, model_id: str) -> JsonObject | None:
        """Return one row; `None` where it deletes."""
        if (text := self.unread.get(model_id)) is not None and model_id not in self.rows:
            parsed = _parse(self.name, f"models:\n{text}", shows_lines=False)
            self.rows[model_id] = parsed[model_id]
        return self.rows[model_id]

    def aliases(self, model_id: str) -> Sequence[str] | None:
        """Return the aliases that this file gives a row; `None` where it leaves them alone."""
        if (text := self.unread.get(model_id)) is not None:
            found = _ALIASES.search(text)
            return [alias.strip(" '\"") for alias in found[1].split(",")] if found else None
        listed = (self.rows[model_id] or {}).get("aliases")
        return listed if is_array(listed) else None


class ModelFields(TypedDict, total=False):
    """What a model is registered with.

    `extends` names a known model to start from; `row` holds anything else, in the schema of
    model_limits.yaml.
    """

    window_tokens: int
    output_tokens: int
    input_tokens: int
    provider: str
    extends: str
    aliases: Sequence[str]
    features: Mapping[str, bool]
    row: JsonObject


def read_user_file(name: str, text: str) -> LimitFile:
    """Parse a file of any layout.

    Raises:
        RegistryError: It is not YAML, or not of the schema's outer shape.
    """
    return LimitFile(name=name, rows=_parse(name, text), head=text)


def read_bundled_file(name: str, text: str) -> LimitFile:
    """Split a file that keeps the layout of the bundled one: a row starts at two spaces."""
    head, _, body = text.partition("\nmodels:\n")
    starts = [match.start() for match in _ROW_START.finditer(body)]
    unread: dict[str, str] = {}
    for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
        name_match = _ROW_NAME.match(body, start + 2)
        if name_match is None:
            return read_user_file(name, text)
        unread[name_match[1]] = body[start:end]
    return LimitFile(name=name, unread=unread, head=head)


def merge_rows(
    base: JsonObject,
    over: JsonObject,
    *,
    file: str = "",
    files: dict[str, str] | None = None,
    path: str = "",
    keeps_none: bool = False,
) -> dict[str, Json]:
    """Lay one row over another: mappings merge, anything else replaces, `None` deletes.

    Args:
        files: Filled with `file` for each field (dotted path) that comes from it.
        keeps_none: Keep what deletes, so that the result deletes it elsewhere in turn.
    """
    merged = dict(base)
    origins = {} if files is None else files
    for name, value in over.items():
        where = f"{path}{name}"
        below = merged.get(name)
        if is_object(value) and (below is None or is_object(below)):
            merged[name] = merge_rows(
                below or {},
                value,
                file=file,
                files=origins,
                path=f"{where}.",
                keeps_none=keeps_none or where == _LAID_LATER,
            )
            origins.setdefault(where, file)
        elif value is None and not keeps_none:
            merged.pop(name, None)
            origins.pop(where, None)
        else:
            merged[name] = value
            origins[where] = file
    return merged


def row_from_fields(fields: ModelFields) -> dict[str, Json]:
    """Return the row that these fields spell; what `row` deletes stays in it as `None`.

    Raises:
        UnknownOptionError: There is no field of that name.
        InvalidParameterError: A field is of another type.
    """
    for name in fields:
        check_known(name, ModelFields.__annotations__, kind="field of a model")
    check_type(
        "features", fields.get("features", {}), Mapping, such_as="a mapping such as {'tools': True}"
    )
    check_type("row", fields.get("row", {}), Mapping, such_as="a row as in model_limits.yaml")
    if nests_too_deeply(fields.get("row")):
        raise InvalidParameterError(
            "row",
            fields.get("row"),
            rule=f"must not be nested deeper than {MAX_JSON_DEPTH} levels",
            remedy="Write it as in model_limits.yaml.",
        )
    aliases = listed("aliases", fields.get("aliases", ()), str, such_as="a list of other ids")
    limits = {
        "window": fields.get("window_tokens"),
        "output": fields.get("output_tokens"),
        "input": fields.get("input_tokens"),
    }
    named: dict[str, Json] = {
        "provider": fields.get("provider"),
        "extends": fields.get("extends"),
        "aliases": [*aliases],
        "features": dict(fields.get("features", {})),
        "limits": {name: tokens for name, tokens in limits.items() if tokens is not None},
    }
    given = {name: value for name, value in named.items() if value}
    return merge_rows(fields.get("row", {}), given, keeps_none=True)


def _parse(name: str, text: str, *, shows_lines: bool = True) -> dict[str, JsonObject | None]:
    content = load_yaml(name, text, shows_lines=shows_lines)
    if content is None:
        return {}
    if not is_object(content):
        raise RegistryError(file=name, row=WHOLE_FILE, field="models", reason="a mapping is needed")
    for section in content:
        if section not in _SECTIONS:
            reason = f"it is not one of {', '.join(_SECTIONS)}; rows stand under 'models:'"
            raise RegistryError(file=name, row=WHOLE_FILE, field=str(section), reason=reason)
    models: object = content.get("models") or {}
    if not is_object(models):
        raise RegistryError(file=name, row=WHOLE_FILE, field="models", reason="a mapping is needed")
    rows: dict[Json, Json] = dict(models)  # YAML allows keys that are no text
    for model_id, row in rows.items():
        if not isinstance(model_id, str):
            reason = f"an id is text, not {model_id!r} (quote it)"
            raise RegistryError(file=name, row=str(model_id), field="models", reason=reason)
        if row is not None and not is_object(row):
            reason = f"a mapping is needed, not {row!r}"
            raise RegistryError(file=name, row=model_id, field="models", reason=reason)
    return rows
