"""Proposals for changes of the registry, from what others say; nothing is changed here."""

from context_assembler.limits.refresh.catalogues import Catalogue, Listing, Source
from context_assembler.limits.refresh.models_apis import MODELS_APIS, ask_vendor, reachable_vendors
from context_assembler.limits.refresh.packages import (
    PACKAGES,
    installed_packages,
    read_file,
    read_package,
)
from context_assembler.limits.refresh.proposal import (
    Change,
    Claim,
    propose_changes,
    unlisted_models,
)
from context_assembler.limits.refresh.proposal_text import change_line, change_lines, proposal_file

__all__ = [
    "MODELS_APIS",
    "PACKAGES",
    "Catalogue",
    "Change",
    "Claim",
    "Listing",
    "Source",
    "ask_vendor",
    "change_line",
    "change_lines",
    "installed_packages",
    "proposal_file",
    "propose_changes",
    "reachable_vendors",
    "read_file",
    "read_package",
    "unlisted_models",
]
