"""Attention over pictures and sounds: views of a recorded pass whose input is patches or spectrogram frames."""
