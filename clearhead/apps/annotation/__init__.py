"""Answer the rows of tables: the answers are new columns, and everything else stays the same."""
