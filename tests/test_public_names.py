"""The names that can be imported from the top, and what their values look like."""

import inspect
import subprocess
import sys
from pathlib import Path

import context_assembler as package
from context_assembler.testing import event_log

LONG = "x" * 5_000


def test_there_are_few_sorted_public_names() -> None:
    names = list(package.__all__)

    assert len(names) <= 60
    assert names == sorted(names)
    assert {*names} <= {*dir(package)}


def test_every_name_is_there_and_documented() -> None:
    for name in package.__all__:
        found = getattr(package, name)

        assert callable(found)
        assert len(inspect.getdoc(found) or "") > 20, name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(package, "Nothing")


def test_no_name_imports_an_sdk() -> None:
    script = (
        "import sys, context_assembler as package\n"
        "for name in package.__all__: getattr(package, name)\n"
        "print(sorted({'anthropic', 'openai', 'google.genai', 'mcp', 'numpy'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


async def test_the_repr_of_any_value_stays_short(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text(LONG, "utf-8")
    async with package.ContextAssembler(sessions="memory:", bootstrap=tmp_path) as assembler:
        await assembler.sessions.append("s", event_log(f"U {LONG}", "A[c1] Ok.", f"T[c1] {LONG}"))
        context = await assembler.assemble("s", model="gpt-5.5", query=None)
        check = context.check_compaction()
        shown = {
            "assembler": assembler,
            "context": context,
            "report": context.report,
            "ledger": context.report.ledger,
            "check": check,
            "config": assembler.config,
            "event": package.user_event(LONG),
            "part": package.Text(LONG),
            "limits": package.get_model_limits("gpt-5.5"),
            "spec": package.ToolSpec(name="f", description=LONG, input_schema={"a": LONG}),
        }

    long = {name: len(repr(value)) for name, value in shown.items() if len(repr(value)) >= 300}
    assert long == {}
