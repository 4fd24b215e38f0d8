from context_assembler.compaction.compactor import (
    Compaction,
    Compactor,
    Host,
    compact_if_due,
    compact_now,
    compactor_of,
    plan_range,
)
from context_assembler.compaction.detector import (
    CompactionCheck,
    CompactionDetector,
    HistoryFacts,
    history_facts,
)
from context_assembler.compaction.essentials import Essentials, essentials_of, read_pieces
from context_assembler.compaction.summarizers import (
    HEADINGS,
    SUMMARY_TEMPLATE,
    SummaryRequest,
    Written,
    extract_summary,
    summarize_with,
)

__all__ = [
    "HEADINGS",
    "SUMMARY_TEMPLATE",
    "Compaction",
    "CompactionCheck",
    "CompactionDetector",
    "Compactor",
    "Essentials",
    "HistoryFacts",
    "Host",
    "SummaryRequest",
    "Written",
    "compact_if_due",
    "compact_now",
    "compactor_of",
    "essentials_of",
    "extract_summary",
    "history_facts",
    "plan_range",
    "read_pieces",
    "summarize_with",
]
