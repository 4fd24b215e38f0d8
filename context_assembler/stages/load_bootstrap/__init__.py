"""Instruction files: AGENT.md, SOUL.md, CONTEXT.md of one folder, their templates filled."""

from typing import TYPE_CHECKING

from context_assembler.on_demand import names_on_demand

if TYPE_CHECKING:
    from context_assembler.stages.load_bootstrap.loader import BootstrapLoader
    from context_assembler.stages.load_bootstrap.templates import render_bootstrap, tell_faults
else:
    __getattr__ = names_on_demand(
        __name__, {"loader": "BootstrapLoader", "templates": "render_bootstrap tell_faults"}
    )

__all__ = ["BootstrapLoader", "render_bootstrap", "tell_faults"]
