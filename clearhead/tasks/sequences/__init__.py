"""What translation and summarization share: an encoder-decoder from text to text."""
