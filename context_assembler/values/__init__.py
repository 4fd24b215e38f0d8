"""What flows through the assembler: frozen values without behaviour beyond their invariants."""
