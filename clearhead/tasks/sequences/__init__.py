"""The common base of translation and summarisation: an encoder-decoder from text to text."""
