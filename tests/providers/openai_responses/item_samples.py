"""One item, with all its fields, for every type of item that Responses takes and gives."""

from typing import Any, Final

Item = dict[str, Any]

DIRECT: Final[Item] = {"type": "direct"}
BY_PROGRAM: Final[Item] = {"type": "program", "caller_id": "prog_1"}
FUNCTION: Final[Item] = {
    "type": "function",
    "name": "book",
    "parameters": {"type": "object"},
    "strict": False,
}
PIXEL_URL: Final = "data:image/png;base64,iVBORw0KGgo="
TEXT: Final[Item] = {
    "type": "output_text",
    "text": "See the report.",
    "annotations": [
        {"type": "file_citation", "file_id": "file-1", "filename": "a.pdf", "index": 3},
        {
            "type": "url_citation",
            "start_index": 0,
            "end_index": 3,
            "title": "Report",
            "url": "https://example.com/report",
        },
        {
            "type": "container_file_citation",
            "container_id": "cntr_1",
            "file_id": "cfile_1",
            "filename": "a.csv",
            "start_index": 0,
            "end_index": 3,
        },
        {"type": "file_path", "file_id": "file-2", "index": 0},
    ],
    "logprobs": [{"token": "See", "bytes": [83], "logprob": -0.5, "top_logprobs": []}],
}
REASONING: Final[Item] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Look it up."}],
    "content": [{"type": "reasoning_text", "text": "Hm."}],
    "encrypted_content": "gAAAAABk",
}

# What a model, or its server, makes: each stands behind REASONING in one reply.
MADE: Final[dict[str, Item]] = {
    "a message": {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [TEXT, {"type": "output_text", "text": "Done.", "annotations": []}],
    },
    "a refusal": {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [TEXT, {"type": "refusal", "refusal": "I can't book that."}],
    },
    "a search of files": {
        "type": "file_search_call",
        "id": "fs_1",
        "queries": ["strikes"],
        "status": "completed",
        "results": [
            {
                "file_id": "file-1",
                "filename": "a.pdf",
                "score": 0.5,
                "text": "No strikes.",
                "attributes": {"year": 2026},
            }
        ],
    },
    "a search of the web": {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {
            "type": "search",
            "query": "strikes",
            "queries": ["strikes"],
            "sources": [{"type": "url", "url": "https://example.com"}],
        },
    },
    "a search for tools by the server": {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": None,
        "execution": "server",
        "arguments": {"paths": ["crm"]},
        "status": "completed",
    },
    "tools that the server found": {
        "type": "tool_search_output",
        "id": "tso_1",
        "call_id": None,
        "execution": "server",
        "status": "completed",
        "tools": [FUNCTION],
    },
    "a picture": {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": "iVBORw0KGgo=",
        "revised_prompt": "A red square.",
        "action": "generate",
        "background": "opaque",
        "output_format": "png",
        "quality": "low",
        "size": "1024x1024",
    },
    "code": {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": "print(1)",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": "1\n"}],
        "status": "completed",
    },
    "code that is not told": {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "code": None,
        "container_id": "cntr_1",
        "outputs": None,
        "status": "completed",
    },
    "tools of an MCP server": {
        "type": "mcp_list_tools",
        "id": "mcpl_1",
        "server_label": "docs",
        "tools": [{"name": "ask", "input_schema": {}, "annotations": None, "description": "Ask."}],
        "error": None,
    },
    "a call of an MCP server": {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "docs",
        "name": "ask",
        "arguments": '{"q":"x"}',
        "approval_request_id": "mcpr_1",
        "output": "42",
        "error": None,
        "status": "completed",
    },
    "a request for approval": {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "docs",
        "name": "ask",
        "arguments": '{"q":"x"}',
    },
    "a compaction": {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABz"},
    "a program": {
        "type": "program",
        "id": "prg_1",
        "call_id": "prog_1",
        "code": "await book()",
        "fingerprint": "fp_1",
    },
}

# What a client is asked for, and its answer.
ANSWERED: Final[dict[str, tuple[Item, Item]]] = {
    "a function": (
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "book",
            "namespace": "travel",
            "arguments": '{ "to": "Graz" }',
            "caller": DIRECT,
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "ok", "caller": DIRECT},
    ),
    "a function with files": (
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "book",
            "arguments": "{}",
        },
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [
                {"type": "input_text", "text": "ok"},
                {"type": "input_image", "detail": "low", "file_id": "file-1"},
                {"type": "input_image", "detail": "auto", "image_url": "https://example.com/a.png"},
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
                {"type": "input_file", "file_id": "file-2"},
                {
                    "type": "input_file",
                    "filename": "a.pdf",
                    "file_data": "data:application/pdf;base64,JVBERi0xLjQKJSVFT0YK",
                },
            ],
        },
    ),
    "a function that is not waited for": (
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "book",
            "arguments": "{}",
            "async": True,
        },
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ),
    "a custom tool": (
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "c1",
            "name": "grep",
            "input": "foo|bar",
            "namespace": "code",
            "caller": DIRECT,
            "async": True,
        },
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "a.txt", "caller": DIRECT},
    ),
    "a search for tools by the client": (
        {
            "type": "tool_search_call",
            "id": "tsc_1",
            "call_id": "c1",
            "execution": "client",
            "arguments": {"goal": "book"},
            "status": "completed",
        },
        {
            "type": "tool_search_output",
            "id": "tso_1",
            "call_id": "c1",
            "execution": "client",
            "status": "completed",
            "tools": [FUNCTION],
        },
    ),
    "a computer": (
        {
            "type": "computer_call",
            "id": "cu_1",
            "call_id": "c1",
            "actions": [{"type": "click", "button": "left", "x": 1, "y": 2}],
            "pending_safety_checks": [{"id": "sc_1", "code": "x", "message": "Sure?"}],
            "status": "completed",
        },
        {
            "type": "computer_call_output",
            "id": "cuo_1",
            "call_id": "c1",
            "output": {"type": "computer_screenshot", "image_url": PIXEL_URL},
            "acknowledged_safety_checks": [{"id": "sc_1", "code": "x", "message": "Sure?"}],
            "status": "completed",
        },
    ),
    "a computer of the preview": (
        {
            "type": "computer_call",
            "id": "cu_1",
            "call_id": "c1",
            "action": {"type": "screenshot"},
            "pending_safety_checks": [],
            "status": "completed",
        },
        {
            "type": "computer_call_output",
            "call_id": "c1",
            "output": {"type": "computer_screenshot", "file_id": "file-1"},
        },
    ),
    "the local shell": (
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "c1",
            "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 10},
            "status": "completed",
        },
        {
            "type": "local_shell_call_output",
            "id": "c1",
            "output": '{"stdout":"a.txt"}',
            "status": "completed",
        },
    ),
    "the shell": (
        {
            "type": "shell_call",
            "id": "sh_1",
            "call_id": "c1",
            "action": {"commands": ["ls"], "timeout_ms": 10, "max_output_length": 100},
            "caller": DIRECT,
            "environment": {"type": "local"},
            "status": "completed",
        },
        {
            "type": "shell_call_output",
            "id": "sho_1",
            "call_id": "c1",
            "output": [
                {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "", "stderr": "slow", "outcome": {"type": "timeout"}},
            ],
            "caller": DIRECT,
            "max_output_length": 100,
            "status": "completed",
        },
    ),
    "a patch": (
        {
            "type": "apply_patch_call",
            "id": "apc_1",
            "call_id": "c1",
            "operation": {"type": "update_file", "path": "a.txt", "diff": "@@\n-a\n+b"},
            "caller": DIRECT,
            "status": "completed",
        },
        {
            "type": "apply_patch_call_output",
            "id": "apo_1",
            "call_id": "c1",
            "status": "completed",
            "output": "Done.",
            "caller": DIRECT,
        },
    ),
}

# What a client says, or adds by itself.
GIVEN: Final[dict[str, Item]] = {
    "an easy message": {"type": "message", "role": "user", "content": "go"},
    "a message": {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Compare."},
            {"type": "input_image", "detail": "original", "file_id": "file-1"},
            {"type": "input_file", "file_id": "file-2"},
        ],
    },
    "instructions": {"type": "message", "role": "developer", "content": "Be brief."},
    "more tools": {
        "type": "additional_tools",
        "id": "at_1",
        "role": "developer",
        "tools": [FUNCTION, {"type": "web_search"}],
    },
    "another configuration": {
        "type": "configuration_update",
        "id": "cu_1",
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "text"}},
    },
    "a reference": {"type": "item_reference", "id": "msg_9"},
    "a reference without a type": {"id": "msg_9"},
    "a compaction": {"type": "compaction", "encrypted_content": "gAAAAABz"},
}
