"""A model that summarises, in use.

app = load("models/minutes")
app(document)              # a summary for a document, a list for a list
app.results([document])    # with score and tokens, and how much of the document was read
"""

from ..tasks.summarize.task import Summarization
from .translator import Translator


class Summarizer(Translator):
    """A document to its summary. All that a translator can do, of documents: those that are longer than any in
    training are read to where these ended.
    """

    task: Summarization
