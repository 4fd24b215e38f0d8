"""`python -m context_assembler` is the command line."""

from context_assembler.cli import main

if __name__ == "__main__":
    main()
