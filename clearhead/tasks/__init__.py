"""What each task learns, answers and is scored by."""
