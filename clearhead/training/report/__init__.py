"""Reports on a training run: metrics, progress, model card, TensorBoard, and the film of a watched text."""
