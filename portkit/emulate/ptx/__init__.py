"""Executes NVIDIA's virtual instruction set, PTX, on the core that all emulated instruction sets share."""
