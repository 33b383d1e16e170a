"""Formats what the other parts found out; computes nothing."""
