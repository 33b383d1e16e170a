"""What emulated instruction sets share: memory, scheduling of waves, the findings and the arithmetic."""
