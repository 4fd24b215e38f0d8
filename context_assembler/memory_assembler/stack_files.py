"""A task stack in a file, so that an agent goes on where it stopped."""

from pathlib import Path

from context_assembler.errors import ConfigurationError, MemoryFormatError
from context_assembler.errors.files import remedy_for_file
from context_assembler.values.given import check_path, check_type
from context_assembler.values.task_stack import TaskStack
from context_assembler.whole_files import written_whole


def save_stack(stack: TaskStack, path: str | Path) -> None:
    """Write the stack to a file, which at every moment holds this stack or the one before.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    check_type("stack", stack, TaskStack, such_as="TaskStack().push('…')")
    check_path("path", path, such_as="the path of a file, such as 'stack.json'")
    target = Path(path).expanduser()
    try:
        with written_whole(target) as file:
            file.write(stack.dump().encode())
    except OSError as error:
        raise _unusable(target, "written", error) from error


def load_stack(path: str | Path) -> TaskStack:
    """Return the stack of a file; an empty one where there is no file.

    Raises:
        MemoryFormatError: The file holds no stack, or one of a newer version.
        ConfigurationError: The file cannot be read.
    """
    check_path("path", path, such_as="the path of a file, such as 'stack.json'")
    source = Path(path).expanduser()
    try:
        dumped = source.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return TaskStack()
    except OSError as error:
        raise _unusable(source, "read", error) from error
    try:
        return TaskStack.load(dumped)
    except MemoryFormatError as error:
        raise MemoryFormatError(
            where=f"The task stack in {str(source)!r}",
            reason=error.reason,
            remedy="Name a file that save_stack wrote, or move this one away to begin anew.",
        ) from None


def _unusable(path: Path, act: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"The file {str(path)!r} cannot be {act}: {error.strerror}.",
        remedy=remedy_for_file(error),
    )
