"""What others say about models: how it is read, and what is proposed."""

import json
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import ConfigurationError
from context_assembler.limits import ModelRegistry
from context_assembler.limits.refresh import (
    MODELS_APIS,
    Catalogue,
    Change,
    Listing,
    Source,
    ask_vendor,
    change_lines,
    installed_packages,
    proposal_file,
    propose_changes,
    reachable_vendors,
    read_file,
    read_package,
    unlisted_models,
)
from context_assembler.limits.refresh.catalogues import known_figures
from context_assembler.values.limits import ModelLimits, Price
from tests.limits.vendor_server import KEYS, serving, vendor_settings

TODAY = date(2026, 11, 27)
ROWS = list(ModelRegistry(overrides=[]).rows())

ROW = ModelLimits(
    id="m",
    provider="openai",
    status="legacy",
    api_id="m-2026",
    aliases=("em",),
    window_tokens=1_048_576,
    input_tokens=900_000,
    output_tokens=64_000,
    prices=(
        Price(input=1.0, output=5.0, cache_read=0.1),
        Price(input=2.0, output=10.0, above_input_tokens=200_000),
    ),
)


def says(name: str, *, model: str = "m", is_vendor: bool = False, **figures: Any) -> Catalogue:
    dotted = {key.replace("__", "."): value for key, value in figures.items()}
    listing = Listing(vendor="openai", model=model, figures=dotted)
    return Catalogue(source=Source(name=name, is_vendor=is_vendor), listings=(listing,))


def proposed(*catalogues: Catalogue, row: ModelLimits = ROW) -> list[Change]:
    return propose_changes([row], catalogues, today=TODAY)


QUIET = {
    "what we say": says("a", limits__output=64_000),
    "nothing": says("a"),
    "another model": says("a", model="m-mini", limits__output=1),
    "a prompt that is our window": says("a", limits__prompt=1_048_576),
    "a prompt that is our input limit": says("a", limits__prompt=900_000),
    "our window, rounded": says("a", limits__prompt=1_000_000),
    "the price of today": says("a", prices__input=1.0, prices__output=5.0),
    "a price, but for floating point": says("a", prices__cache_read=0.1 + 1e-12),
}


@pytest.mark.parametrize("catalogue", QUIET.values(), ids=QUIET.keys())
def test_what_is_backed_or_not_mentioned_stays(catalogue: Catalogue) -> None:
    assert proposed(catalogue) == []


def test_one_backer_is_enough_to_leave_a_field_alone() -> None:
    others = [says("b", limits__output=128_000), says("c", limits__output=128_000)]

    assert proposed(says("a", limits__output=64_000), *others) == []


def test_two_sources_make_a_change_sure() -> None:
    (change,) = proposed(
        says("a", limits__output=128_000), says("b", model="EM", limits__output=128_000)
    )

    assert (change.field, change.previous, change.proposed) == ("limits.output", 64_000, 128_000)
    assert (change.decision, change.reasons) == ("auto", ())
    assert [claim.source.name for claim in change.claims] == ["a", "b"]


def test_so_does_the_vendor_alone() -> None:
    (change,) = proposed(says("api", model="m-2026", is_vendor=True, limits__output=128_000))

    assert change.decision == "auto"


REVIEWED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "one source only": ({"limits__output": 128_000}, {}, "one source only"),
    "a limit that shrinks": (
        {"limits__output": 100},
        {"limits__output": 100},
        "a limit that shrinks",
    ),
    "a price that jumps": (
        {"prices__input": 6.0},
        {"prices__input": 6.0},
        "a price that moves more than fivefold",
    ),
    "a price that falls": (
        {"prices__output": 0.9},
        {"prices__output": 0.9},
        "a price that moves more than fivefold",
    ),
    "a date": (
        {"retires_on": "2027-01-01"},
        {"retires_on": "2027-01-01"},
        "a lifecycle is never taken over unseen",
    ),
    "a status": (
        {"status": "retired"},
        {"status": "retired"},
        "a lifecycle is never taken over unseen",
    ),
    "what we leave open": (
        {"prices__cache_write": 1.25},
        {"prices__cache_write": 1.25},
        "the row leaves it open",
    ),
}


@pytest.mark.parametrize(("first", "second", "reason"), REVIEWED.values(), ids=REVIEWED.keys())
def test_some_changes_want_a_persons_eye(
    first: dict[str, Any], second: dict[str, Any], reason: str
) -> None:
    (change,) = proposed(says("a", **first), says("b", **second))

    assert change.decision == "review"
    assert reason in change.reasons


def test_where_sources_disagree_the_most_of_them_are_proposed_for_review() -> None:
    (change,) = proposed(
        says("a", limits__output=100_000),
        says("b", limits__output=128_000),
        says("c", limits__output=128_000),
    )

    assert change.proposed == 128_000
    assert change.reasons == ("the sources disagree",)
    assert [claim.value for claim in change.against] == [100_000]
    assert " limits.output: 100,000    [a] disagrees" in list(change_lines([change]))


def test_a_locked_field_is_never_proposed() -> None:
    row = ModelLimits(
        id="m", provider="openai", window_tokens=10, output_tokens=5, locked=("limits.output",)
    )

    assert proposed(says("a", limits__output=9), says("b", limits__output=9), row=row) == []


def test_a_prompt_that_is_neither_means_the_input_limit_where_there_is_one() -> None:
    (with_input,) = proposed(says("a", limits__prompt=950_001))
    row = ModelLimits(id="m", provider="openai", window_tokens=400_000)
    (without,) = proposed(says("a", limits__prompt=500_001), row=row)

    assert (with_input.field, without.field) == ("limits.input", "limits.window")


def test_a_zero_and_a_blank_are_no_figures() -> None:
    figures = (("a", 0), ("b", None), ("c", ""), ("d", 0.0), ("e", 5), ("f", "x"))

    assert known_figures(figures) == {"e": 5, "f": "x"}


def test_what_only_the_vendor_lists_is_named() -> None:
    catalogues = [
        says("api", model="m-next", is_vendor=True),
        says("api", model="M-2026", is_vendor=True),
        says("other", model="m-fine-tuned"),
    ]

    assert unlisted_models([ROW], catalogues) == {"openai": ["m-next"]}


def test_a_proposal_is_a_file_that_makes_the_sure_changes_alone(tmp_path: Path) -> None:
    changes = propose_changes(
        ROWS,
        [
            says("a", model="gpt-4o", limits__output=32_000, prices__input=3.0, prices__output=1.5),
            says("b", model="gpt-4o", limits__output=32_000, prices__input=3.0),
            says("c", model="gpt-6.1-sol", retires_on="2027-01-01", limits__output=1000),
        ],
        today=TODAY,
    )
    path = tmp_path / "proposal.yaml"
    sources = [Source(name="a", version="1", sha256="abc"), Source(name="b")]

    text = proposal_file(changes, {row.id: row for row in ROWS}, sources, today=TODAY)
    path.write_text(text, "utf-8")
    registry = ModelRegistry(overrides=[path])

    limits, other = registry.get("gpt-4o"), registry.get("gpt-6.1-sol")
    assert (limits.output_tokens, limits.prices[0].input, limits.prices[0].output) == (
        32_000,
        3.0,
        10.0,
    )
    assert limits.checked == TODAY
    assert (other.output_tokens, other.retires_on) == (128_000, None)
    assert registry.problems() == []
    assert registry.sources()["a"] == "a 1, sha256 abc"
    assert "# retires_on: not given → 2027-01-01, says c; review" in text
    assert "# limits: {output: 1000}" in text


def test_changing_a_price_keeps_the_others_of_the_row(tmp_path: Path) -> None:
    catalogues = [says(name, model="gpt-6.1-sol", prices__output=11.0) for name in "ab"]
    changes = propose_changes(ROWS, catalogues, today=TODAY)
    path = tmp_path / "proposal.yaml"

    path.write_text(proposal_file(changes, {row.id: row for row in ROWS}, [], today=TODAY))
    prices = ModelRegistry(overrides=[path]).get("gpt-6.1-sol").prices

    assert [(p.input, p.output, p.above_input_tokens) for p in prices] == [
        (2.0, 11.0, 0),
        (4.0, 15.0, 272_000),
    ]


def test_a_row_without_a_price_gets_one(tmp_path: Path) -> None:
    row = ModelLimits(id="m", provider="openai", window_tokens=10)
    changes = proposed(says("a", prices__input=2.5), row=row)

    text = proposal_file(changes, {"m": row}, [], today=TODAY)

    assert "# prices: [{input: 2.5}]" in text


def litellm_map(**entries: Any) -> dict[str, Any]:
    filler = {f"e{number}": {"litellm_provider": "x", "mode": "embedding"} for number in range(50)}
    return {**filler, "sample_spec": {"mode": "chat"}, **entries}


GPT = {
    "litellm_provider": "openai",
    "mode": "chat",
    "max_input_tokens": 128_000,
    "max_output_tokens": 16_384,
    "input_cost_per_token": 2.5e-06,
    "output_cost_per_token": 0,
    "cache_read_input_token_cost": 1.25e-06,
    "deprecation_date": "2027-01-14",
}


def read_json(tmp_path: Path, content: Any) -> Catalogue:
    path = tmp_path / "catalogue.json"
    path.write_text(json.dumps(content))
    return read_file(path)


def test_litellms_map_is_read_for_the_vendors_themselves(tmp_path: Path) -> None:
    catalogue = read_json(
        tmp_path,
        litellm_map(
            **{
                "gpt-4o": GPT,
                "xai/grok-4.7": {**GPT, "litellm_provider": "xai", "deprecation_date": "soon"},
                "azure/gpt-4o": {**GPT, "litellm_provider": "azure"},
                "text-embedding-3": {**GPT, "mode": "embedding"},
                "odd": {**GPT, "litellm_provider": 5},
            }
        ),
    )

    figures: dict[str, float | str] = {
        "limits.prompt": 128_000,
        "limits.output": 16_384,
        "retires_on": "2027-01-14",
        "prices.input": 2.5,
        "prices.cache_read": 1.25,
    }
    grok = {name: value for name, value in figures.items() if name != "retires_on"}
    assert catalogue.source.name == "litellm"
    assert len(catalogue.source.sha256) == 64
    assert catalogue.listings == (
        Listing(vendor="openai", model="gpt-4o", figures=figures),
        Listing(vendor="xai", model="grok-4.7", figures=grok),
    )


def test_models_dev_is_read_by_vendor(tmp_path: Path) -> None:
    gpt = {"limit": {"context": 128_000, "output": 0, "input": True}, "cost": {"input": 2.5}}
    catalogue = read_json(
        tmp_path,
        {
            "openai": {"models": {"gpt-4o": gpt, "odd": 5, "bare": {}}},
            "groq": {"models": {"gpt-4o": gpt}},
            "xai": {"models": "none"},
            "version": 3,
        },
    )

    assert catalogue.source.name == "models.dev"
    assert catalogue.listings == (
        Listing(
            vendor="openai",
            model="gpt-4o",
            figures={"limits.window": 128_000, "prices.input": 2.5},
        ),
        Listing(vendor="openai", model="bare", figures={}),
    )


BAD_FILES = {
    "no JSON": ("{", "cannot be read as JSON"),
    "another JSON": ('{"a": {"b": 1}}', "neither litellm's map"),
    "a list": ("[]", "neither litellm's map"),
    "a map that was cut off": ('{"gpt-4o": {"litellm_provider": "openai"}}', "only 1 entries"),
}


@pytest.mark.parametrize(("text", "says"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "catalogue.json"
    path.write_text(text)

    with pytest.raises(ConfigurationError, match=says):
        read_file(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_file(tmp_path / "nothing.json")


@pytest.mark.parametrize("name", ["litellm", "genai-prices"])
def test_the_bundled_registry_agrees_with_an_installed_package(name: str) -> None:
    if name not in installed_packages():
        pytest.skip(f"{name} is not installed")

    was_loaded = "litellm" in sys.modules
    catalogue = read_package(name, today=TODAY)
    changes = propose_changes(ROWS, [catalogue], today=TODAY)

    assert ("litellm" in sys.modules) is was_loaded
    assert catalogue.source.version
    assert len(catalogue.listings) > 100
    assert [change for change in changes if change.decision == "auto"] == []


PACKAGE = """
class Price:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Tiers:
    base = 2


class Model:
    def __init__(self, id, context_window, prices):
        self.id, self.context_window, self.prices = id, context_window, prices

    def get_prices(self, moment):
        return self.prices


class Provider:
    def __init__(self, id, models):
        self.id, self.models = id, models


providers = [
    Provider("openai", [Model("gpt-4o", 128_000, Price(input_mtok=Tiers(), output_mtok=10))]),
    Provider("x-ai", [Model("grok-4.7", None, [])]),
    Provider("azure", [Model("gpt-4o", 1, [])]),
]
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Packages of our own making, laid out as the real ones are."""
    for module in [name for name in sys.modules if name.split(".")[0] == "genai_prices"]:
        monkeypatch.delitem(sys.modules, module)
    for name, module, version in (
        ("litellm", "litellm", "9.9"),
        ("genai_prices", "genai_prices", "8.8"),
    ):
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text("")
        metadata = tmp_path / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: {version}\n")
    (tmp_path / "genai_prices" / "data.py").write_text(PACKAGE)
    map_path = tmp_path / "litellm" / "model_prices_and_context_window_backup.json"
    map_path.write_text(json.dumps(litellm_map(**{"gpt-4o": GPT})))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for module in [name for name in sys.modules if name.split(".")[0] == "genai_prices"]:
        del sys.modules[module]


def test_installed_packages_are_read(packages: Path) -> None:
    litellm, genai = (read_package(name, today=TODAY) for name in installed_packages())

    assert (litellm.source.label, genai.source.label) == ("litellm 9.9", "genai-prices 8.8")
    assert litellm.listings[0].figures["limits.output"] == 16_384
    assert genai.listings == (
        Listing(
            vendor="openai",
            model="gpt-4o",
            figures={"limits.prompt": 128_000, "prices.input": 2.0, "prices.output": 10.0},
        ),
        Listing(vendor="xai", model="grok-4.7", figures={}),
    )


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])

    with pytest.raises(ConfigurationError, match="litellm is not installed") as caught:
        read_package("litellm", today=TODAY)

    assert "pip install litellm" in caught.value.remedy


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serving() as base_url:
        for name, value in vendor_settings(base_url).items():
            monkeypatch.setenv(name, value)
        yield base_url


def test_the_vendors_own_apis_are_asked_through_their_sdks(vendors: str) -> None:
    listings = {name: ask_vendor(name).listings for name in MODELS_APIS}

    assert [(listing.model, dict(listing.figures)) for listing in listings["anthropic"][:2]] == [
        ("claude-opus-5-5", {"limits.prompt": 1_000_000, "limits.output": 128_000}),
        (
            "claude-haiku-4-5",
            {
                "limits.prompt": 200_000,
                "limits.output": 96_000,
                "retires_on": "2027-03-01",
                "status": "deprecated",
            },
        ),
    ]
    assert [(listing.model, dict(listing.figures)) for listing in listings["openai"]] == [
        ("gpt-5.5", {}),
        ("gpt-5.4", {"retires_on": "2027-09-01"}),
    ]
    assert listings["google"][1] == Listing(
        vendor="google",
        model="gemini-3.8-flash",
        figures={"limits.prompt": 1_048_576, "limits.output": 131_072},
    )


def test_what_the_vendors_say_is_proposed(vendors: str) -> None:
    catalogues = [ask_vendor(name) for name in reachable_vendors()]

    changes = propose_changes(ROWS, catalogues, today=TODAY)

    assert [(change.model, change.field, change.decision) for change in changes] == [
        ("claude-haiku-4-5", "limits.output", "auto"),
        ("claude-haiku-4-5", "status", "review"),
        ("claude-haiku-4-5", "retires_on", "review"),
        ("gpt-5.4", "retires_on", "review"),
        ("gemini-3.8-flash", "limits.output", "auto"),
    ]
    assert unlisted_models(ROWS, catalogues) == {"anthropic": ["claude-fable-6"]}


@pytest.mark.parametrize("vendor", MODELS_APIS)
def test_an_api_that_refuses_is_named(
    vendor: str, vendors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in vendor_settings(f"{vendors}/nowhere").items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigurationError, match=f"Models API of {vendor} did not answer"):
        ask_vendor(vendor)


@pytest.mark.parametrize(
    ("vendor", "package"),
    [("anthropic", "anthropic"), ("openai", "openai"), ("google", "google-genai")],
)
def test_a_missing_sdk_is_named(vendor: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("anthropic", "openai", "google"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ConfigurationError, match="not installed") as caught:
        ask_vendor(vendor)

    assert f"pip install {package}." in caught.value.remedy


def test_only_vendors_with_a_key_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", "k")

    assert reachable_vendors() == ["google"]
