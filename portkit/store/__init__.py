"""Reports: the journal, its schema and the merge."""
