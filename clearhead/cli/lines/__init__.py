"""Answer many lines: worker processes, answers in input order, and output files that can be resumed."""
