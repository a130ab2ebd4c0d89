"""What each task learns, predicts and is scored by."""
