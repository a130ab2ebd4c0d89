"""Transcription: from a sound to its text, with an encoder of spectrogram frames and a decoder of text."""
