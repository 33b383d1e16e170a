"""Builds, runs and judges cells; the only part that imports torch and Triton."""
