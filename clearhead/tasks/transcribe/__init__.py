"""Transcription: from a recording to its text, with an encoder of spectrogram frames and a decoder of text."""
