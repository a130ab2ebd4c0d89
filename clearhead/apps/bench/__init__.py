"""Measure how fast models train and decode on this machine, and how close that is to what the machine can do."""
