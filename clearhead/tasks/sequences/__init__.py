"""The base of translation and summarization: an encoder-decoder from text to text."""
