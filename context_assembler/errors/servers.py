"""Errors of servers that others run."""

from context_assembler.errors.base import AssemblyError


class McpServerError(AssemblyError, ConnectionError):
    """An MCP server that cannot be reached, ended, or does not answer as MCP says.

    `stderr` is the end of what it wrote to its standard error; empty over HTTP.
    """

    def __init__(self, server: str, *, reason: str, remedy: str, stderr: str = "") -> None:
        quoted = f" The end of its stderr: {stderr!r}." if stderr else ""
        super().__init__(f"MCP server {server!r} {reason}.{quoted}", remedy=remedy)
        self.server = server
        self.reason = reason
        self.stderr = stderr

    def again(self) -> "McpServerError":
        """Return the error for another raise."""
        return McpServerError(
            self.server, reason=self.reason, remedy=self.remedy, stderr=self.stderr
        )
