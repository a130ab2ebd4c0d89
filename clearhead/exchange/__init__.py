"""Read and write models of other programs."""
