"""Pretrain on the task's own texts before training on the task."""
