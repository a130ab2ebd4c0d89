"""The course: ten exercises in the paper's order, graded by the laws that a right answer obeys."""
