"""Attention over images and audio: views of a recorded pass whose input is patches or spectrogram frames."""
