"""`python -m context_assembler` is `context-assembler`."""

from context_assembler.cli import main

if __name__ == "__main__":
    main()
