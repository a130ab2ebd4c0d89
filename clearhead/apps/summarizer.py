"""App for summarization.

app = load("models/minutes")
app(document)              # returns a str for one document, a list for several
app.results([document])    # with scores, tokens, and how much of the document was read
"""

from ..tasks.summarize.task import Summarization
from .translator import Translator


class Summarizer(Translator):
    """App that summarizes documents. It has all the methods of a translator.

    Documents longer than any in training are truncated to the longest length seen in training.
    """

    task: Summarization
