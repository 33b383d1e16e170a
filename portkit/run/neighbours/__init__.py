"""Who else uses the GPUs of a run: import from the modules; one file a vendor."""
