"""Models behind `prefill`, `step` and `select`."""
