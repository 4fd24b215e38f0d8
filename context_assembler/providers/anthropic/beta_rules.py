"""Rules on compactions, context editing, and features that are in beta."""

from collections.abc import Iterator

from context_assembler.providers.anthropic.betas import asked_betas, needed_betas
from context_assembler.providers.anthropic.rule_book import Block, Sent, breach
from context_assembler.values.compactions import COMPACTION_TYPE
from context_assembler.values.reading import as_object, as_text, objects_in
from context_assembler.values.report import Violation


def check_context_editing(sent: Sent) -> Iterator[Violation]:
    """A25, A26: server-side compaction and editing."""
    management = as_object(sent.payload.get("context_management"))
    edits = list(objects_in(management.get("edits")))
    compacts = any(as_text(edit.get("type")).startswith("compact_") for _, edit in edits)
    budget = as_object(as_object(sent.payload.get("output_config")).get("task_budget"))
    if management and sent.payload.get("compaction"):
        yield breach("A25", "compaction", "not taken together with context_management")
    if budget.get("remaining") is not None and (compacts or sent.payload.get("compaction")):
        where = "output_config.task_budget.remaining"
        yield breach("A25", where, "not taken together with compaction")
    for index, edit in edits:
        if index and as_text(edit.get("type")).startswith("clear_thinking"):
            yield breach("A26", f"context_management.edits[{index}]", "clear_thinking comes first")


def check_compactions(sent: Sent) -> Iterator[Violation]:
    """A29: compaction blocks are the assistant's, hold something, and a signed one comes first."""
    found = [
        (turn.role, block)
        for turn in sent.turns
        for block in turn.blocks
        if block.kind == COMPACTION_TYPE
    ]
    signed = [block for _, block in found if block.body.get("signature")]
    for role, block in found:
        if role != "assistant":
            yield breach("A29", block.where, "only the assistant compacts")
        if block.body.get("content") == "":
            yield breach("A29", f"{block.where}.content", "a summary must not be empty")
    for block in signed[1:]:
        yield breach("A29", block.where, "there is one signed compaction at most")
    if signed and not _comes_first(sent, signed[0]):
        yield breach("A29", signed[0].where, "a signed compaction stands before everything else")


def _comes_first(sent: Sent, block: Block) -> bool:
    return sent.turns[0].blocks[:1] == (block,)


def check_betas(sent: Sent) -> Iterator[Violation]:
    """A30: what is in beta is asked for."""
    for beta in sorted({*needed_betas(sent.payload)} - asked_betas(sent.payload)):
        message = f"the beta {beta} is not asked for"
        yield breach("A30", "extra_headers.anthropic-beta", message, level="avoid")
