"""A summarizer in use.

app = load("models/minutes")
app(document)              # a document gives a summary, a list gives a list
app.results([document])    # with scores, tokens, and how much of the document was read
"""

from ..tasks.summarize.task import Summarization
from .translator import Translator


class Summarizer(Translator):
    """Summarizes documents. It has all methods of a translator.

    A document longer than any in training is cut to the longest length seen in training.
    """

    task: Summarization
