"""A warning that every call would repeat."""

from datetime import UTC, datetime

from context_assembler import ContextAssembler, ModelRegistry


async def test_a_process_hears_once_that_a_model_retires() -> None:
    registry = ModelRegistry()
    registry.register(
        "a-model-that-goes",
        row={
            "provider": "openai",
            "limits": {"window": 9_000, "output": 900},
            "retires_on": "2026-12-24",
        },
    )
    told = list[bool]()
    for _ in range(2):
        assembler = ContextAssembler(
            registry=registry, now=lambda: datetime(2026, 11, 30, tzinfo=UTC)
        )
        for session in "aab":
            await assembler.add_user(session, "hello")
            report = await assembler.explain(session, model="a-model-that-goes")
            told.append(any("retires on 2026-12-24" in text for text in report.warnings))

    assert told == [True, False, False, False, False, False]
