"""What a run reports: metrics, progress, model card, TensorBoard, film of a watched text."""
