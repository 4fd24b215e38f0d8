"""From a query to recalled memories: one step per file; only `memory_assembler` knows their order."""
