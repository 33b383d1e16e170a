"""Semantics of AMD instructions, one table per family.

A table maps a mnemonic without its encoding suffix to an ``Entry`` that names the ISA document and section
and builds the step that executes one instruction.
"""
