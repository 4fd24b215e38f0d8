"""What every provider does with the schemas of tools, and with pictures that no server takes."""

import base64
import io
import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_assembler.ports import ToolSpec
from context_assembler.providers import PROVIDERS
from context_assembler.tools import ListedTools, ToolCollector
from tests.providers.builders import render_with_entries, user


def collected(schema: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the canonical schema of a tool, `None` if it is refused, and what is reported."""
    spec = ToolSpec(name="t", input_schema=schema)
    found = ToolCollector([ListedTools([spec])]).collect_now()
    tools = [dict(tool.input_schema) for tool in found.tools]
    return tools[0] if tools else None, " ".join(entry.reason or "" for entry in found.entries)


def of(**fields: Any) -> dict[str, Any]:
    return {"properties": {"a": fields}, "type": "object"}


def union(key: str) -> dict[str, Any]:
    one = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    two = {"type": "object", "properties": {"a": {"type": "null"}, "b": {}}, "required": ["a", "b"]}
    return {key: [one, two]}


LAID = {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "b": {}}
NODE = {"$ref": "#/$defs/node"}
TREE = {"type": "object", "properties": {"inner": NODE}}
PAIR = [{"type": "string"}, {"type": "integer"}]
REPAIRED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {"properties": {}, "type": "object"}),
    "types of other languages": (of(type="dict"), of(type="object")),
    "any type": (of(type="any"), of()),
    "types in capitals": (of(type=["STRING", "null", "null"]), of(type=["string", "null"])),
    "keys in any order": (
        {"type": "object", "required": ["b", "a"], "properties": {"b": {}, "a": {}}},
        {"properties": {"a": {}, "b": {}}, "required": ["a", "b"], "type": "object"},
    ),
    "keywords without a value": (of(title=None, default=None), of(default=None)),
    "keywords of the wrong kind": (of(minLength="3", enum="x", description=1), of()),
    "a flag for a bound": (of(exclusiveMinimum=True, minimum=2), of(exclusiveMinimum=2)),
    "items by position": (
        of(type="array", items=PAIR, additionalItems=False),
        of(items=False, prefixItems=PAIR, type="array"),
    ),
    "an array without items": (of(type="array"), of(items={}, type="array")),
    "a pattern of another language": (
        of(type="string", pattern="\\p{L}+"),
        of(type="string", description="It matches the pattern \\p{L}+"),
    ),
    "a choice at the root": (
        union("oneOf"),
        {"properties": LAID, "required": ["a"], "type": "object"},
    ),
    "all of several at the root": (
        union("allOf"),
        {
            "properties": {**LAID, "a": {"allOf": LAID["a"]["anyOf"]}},
            "required": ["a", "b"],
            "type": "object",
        },
    ),
    "a reference at the root": (
        {**NODE, "$defs": {"node": {"type": "object", "properties": {"x": {"type": "null"}}}}},
        {"properties": {"x": {"type": "null"}}, "type": "object"},
    ),
    "a tree": (
        {**NODE, "$defs": {"node": TREE}},
        {"$defs": {"node": TREE}, "properties": {"inner": NODE}, "type": "object"},
    ),
    "half of a character": (of(description="\ud800"), of(description="\ufffd")),
}


@pytest.mark.parametrize(("given_", "made"), REPAIRED.values(), ids=REPAIRED.keys())
def test_a_schema_becomes_one_that_every_server_takes(
    given_: dict[str, Any], made: dict[str, Any]
) -> None:
    schema, _ = collected(given_)

    assert json.dumps(schema) == json.dumps(made, sort_keys=True)
    assert collected(made)[0] == schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string"}, "the root's type is 'string'"),
        (of(type="strnig"), "properties.a.type is 'strnig'"),
        ({"properties": ["a"]}, "properties is"),
        ({"properties": {"a": "string"}}, "properties.a is"),
        (of(**{"$ref": "#/$defs/x"}), "points to nothing"),
    ],
)
def test_a_schema_beyond_repair_is_refused_and_says_where(
    schema: dict[str, Any], reason: str
) -> None:
    made, told = collected(schema)

    assert made is None
    assert reason in told


def nested(times: int, form: Callable[[Any], Any]) -> Any:
    """Return a schema in which an object is put into another one as often."""
    schema: Any = {"type": "object"}
    for _ in range(times):
        schema = form(schema)
    return schema


CYCLE: dict[str, Any] = {"type": "object", "properties": {}}
CYCLE["properties"]["me"] = CYCLE
TWINS = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
UNSAYABLE: dict[str, tuple[Any, str]] = {
    "deep": (nested(5_000, lambda inner: of(**inner)), "nested too deeply"),
    "deep lists": (nested(5_000, lambda inner: of(items=inner)), "nested too deeply"),
    "deep choices": (nested(500, lambda inner: {"anyOf": [inner]}), "nested too deeply"),
    "a default that is deep": (of(default=nested(5_000, lambda inner: [inner])), "too deeply"),
    "held by itself": (CYCLE, "nested too deeply"),
    "wide": ({"properties": {f"p{n}": {} for n in range(100_000)}}, "more than 1,000,000"),
    "shared": (
        nested(40, lambda inner: {"properties": {"a": inner, "b": inner}}),
        "more than 1,000,000",
    ),
    "many values": (of(enum=list(range(200_000))), "more than 1,000,000 characters"),
    "much text": (of(description="x" * 2_000_000), "more than 1,000,000 characters"),
    "references that lead to two": (
        {"$ref": "#/$defs/d0", "$defs": {**TWINS, "d60": {"type": "object"}}},
        "more than 10,000 schemas",
    ),
    "no number": (of(default=float("nan")), "holds nan, which no request can carry"),
    "no end": (of(maximum=float("inf")), "holds inf"),
    "a very large number": (of(default=10**5_000), "no request can carry"),
    "a date": (of(default=date(2026, 1, 1)), "holds datetime.date(2026, 1, 1)"),
    "bytes": (of(const=b"x"), "holds b'x'"),
}


@pytest.mark.parametrize(("schema", "reason"), UNSAYABLE.values(), ids=UNSAYABLE.keys())
def test_what_no_request_can_carry_costs_its_tool_alone(schema: Any, reason: str) -> None:
    tools: list[Any] = [
        {"name": "odd", "input_schema": schema},
        {"name": "sound", "input_schema": {}},
    ]

    collected_tools = ToolCollector(tools).collect_now()

    assert [tool.name for tool in collected_tools.tools] == ["sound"]
    assert reason in collected_tools.warnings[0]


DEEP: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "objects": (70, lambda inner: of(**inner)),
    "lists": (140, lambda inner: {"type": "array", "items": inner}),
    "choices": (70, lambda inner: {"anyOf": [inner, {"type": "null"}]}),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("levels", "form"), DEEP.values(), ids=DEEP.keys())
def test_what_is_not_too_deep_can_be_sent(
    provider: str, levels: int, form: Callable[[Any], Any]
) -> None:
    schema = {"type": "object", "properties": {"a": nested(levels, form)}}
    tools = ToolCollector([{"name": "deep", "input_schema": schema}]).collect_now().tools

    payload, _ = render_with_entries(provider, user("a"), tools=tools)

    assert "deep" in json.dumps(payload)


def test_a_function_keeps_the_order_of_its_parameters() -> None:
    def decide(why: str, choice: int, again: bool = False, after: str = "") -> None:
        """Decide."""

    [tool] = ToolCollector([decide]).collect_now().tools

    assert [*tool.input_schema["properties"]] == ["why", "choice", "again", "after"]


def reordered(value: Any) -> Any:
    """Return the same JSON with the keys of every object in the opposite order."""
    if value.__class__ is dict:
        return {key: reordered(value[key]) for key in reversed(value)}
    return list(map(reordered, value)) if value.__class__ is list else value


EMPTY: dict[str, Any] = {}
schemas: Any = st.recursive(
    st.sampled_from(
        [EMPTY, {"type": "string"}, {"type": "int"}, {"enum": ["b", "a"]}, {"$ref": "#"}]
    ),
    lambda inner: st.fixed_dictionaries(
        EMPTY,
        optional={
            "type": st.sampled_from(["object", "array", ["object", "null"]]),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "required": st.lists(st.sampled_from("ab"), max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
        },
    ),
    max_leaves=8,
)


@example(schema={"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]})
@given(schema=schemas)
def test_a_canonical_schema_stays_as_it_is(schema: dict[str, Any]) -> None:
    once, _ = collected(schema)

    if once is not None:
        assert json.dumps(collected(once)[0]) == json.dumps(once)
        assert once["type"] == "object"
        assert not {"anyOf", "allOf", "oneOf", "$ref"} & once.keys()
        assert json.dumps(collected(reordered(schema))[0]) == json.dumps(once)


# ---- pictures ----


def picture(form: str, size: tuple[int, int] = (40, 20), mode: str = "RGB", **save: Any) -> Any:
    image = pytest.importorskip("PIL.Image")
    made = [image.new(mode, size, shade) for shade in ("white", "black")]
    stream = io.BytesIO()
    more = {"save_all": True, "append_images": made[1:]} if save.pop("moves", False) else {}
    made[0].save(stream, form, **save, **more)
    data = base64.b64encode(stream.getvalue()).decode()
    source = {"type": "base64", "media_type": f"image/{form.lower()}", "data": data}
    return {"type": "image", "source": source}


PICTURES: dict[str, tuple[dict[str, Any], str, tuple[str, tuple[int, int]], str]] = {
    "that fits": ({"form": "PNG"}, "openai_chat", ("PNG", (40, 20)), ""),
    "of another format": ({"form": "BMP"}, "openai_chat", ("PNG", (40, 20)), "image.recoded"),
    "in grey": ({"form": "TIFF", "mode": "L"}, "openai_chat", ("PNG", (40, 20)), "image.recoded"),
    "that moves": (
        {"form": "GIF", "moves": True},
        "openai_chat",
        ("PNG", (40, 20)),
        "image.recoded",
    ),
    "that is long": (
        {"form": "PNG", "size": (9000, 90)},
        "anthropic",
        ("PNG", (2000, 20)),
        "image.scaled",
    ),
    "that is long, as a photograph": (
        {"form": "JPEG", "size": (90, 9000)},
        "anthropic",
        ("JPEG", (20, 2000)),
        "image.scaled",
    ),
    "that is long, where the server scales": (
        {"form": "PNG", "size": (9000, 90)},
        "openai_chat",
        ("PNG", (9000, 90)),
        "",
    ),
}


@pytest.mark.parametrize(
    ("made", "provider", "sent", "rule"), PICTURES.values(), ids=PICTURES.keys()
)
def test_a_picture_is_sent_as_the_server_takes_it(
    made: dict[str, Any], provider: str, sent: tuple[str, tuple[int, int]], rule: str
) -> None:
    given_ = picture(**made)

    payload, entries = render_with_entries(provider, user(given_), system="", tools=())
    [piece] = payload["messages"][0]["content"]
    encoded = piece["image_url"]["url"].partition(",")[2] if "image_url" in piece else ""
    encoded = encoded or piece["source"]["data"]
    opened = pytest.importorskip("PIL.Image").open(io.BytesIO(base64.b64decode(encoded)))

    assert (opened.format, opened.size) == sent
    assert [found for _, found in entries] == [rule] * bool(rule)
    assert bool(rule) == (encoded != given_["source"]["data"])


def test_bytes_that_are_no_picture_are_left_out_in_words() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA" * 9}

    payload, entries = render_with_entries("openai_chat", user({"type": "image", "source": source}))

    assert "image" in payload["messages"][1]["content"]
    assert entries == [("shortened", "media.type")]


@pytest.mark.parametrize("provider", [*PROVIDERS])
@pytest.mark.parametrize("kind", ["image", "document"])
@pytest.mark.parametrize("held", ["", " ", "\0"], ids=["nothing", "a blank", "NUL"])
@pytest.mark.parametrize("place", ["file", "url", "base64"])
def test_what_has_no_place_to_be_found_at_is_left_out(
    provider: str, kind: str, held: str, place: str
) -> None:
    source = {
        "file": {"type": "file", "file_id": held, "provider": provider},
        "url": {"type": "url", "url": held},
        "base64": {"type": "base64", "media_type": "image/png", "data": ""},
    }[place]

    payload, entries = render_with_entries(
        provider, user("a", {"type": kind, "source": source}), user("b")
    )

    assert f"[{kind} left out" in json.dumps(payload)
    assert entries == [("shortened", "media.empty")]
