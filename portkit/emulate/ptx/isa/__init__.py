"""Meaning of PTX instructions, one module a family."""
