"""Matrix operands and sums as pure functions of arrays: formats, fragments, layouts in shared memory, accumulation."""
