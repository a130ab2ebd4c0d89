"""Measure how fast models train and decode on this machine, and how close that is to the machine's limits."""
