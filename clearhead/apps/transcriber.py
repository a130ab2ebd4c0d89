"""A transcriber in use.

app = load("models/calls")
app("call.wav")                  # a path gives a text, a list gives a list
app((samples, 16_000))           # so do samples with their rate
app.results(["call.wav"])        # with scores and tokens
app.explain("call.wav")          # with every step of attention
"""

from ..tasks.transcribe.task import Transcription
from .translator import Translator


class Transcriber(Translator):
    """Writes down what is said in sounds. It has all methods of a translator."""

    task: Transcription
