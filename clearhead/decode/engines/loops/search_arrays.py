"""The arrays of a search: what to decode, the rules, the live hypotheses, their successors, and the answers.

Axes: N sources, B of them at a time, W beams, T steps, V tokens.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .equations import Floats
from .stacks import Ints


class Jobs(NamedTuple):
    """What to decode, and within which limits."""

    tokens: Ints  # the sources, one after the other
    offsets: Ints  # (N + 1,): where each begins
    start: Ints  # (N,): the token before the output
    max_steps: Ints  # (N,)
    min_len: Ints  # (N,)
    max_len: Ints  # (N,), or -1
    prefixes: Ints  # (N, P), filled up with -1


class Ruling(NamedTuple):
    """Rules of the search: those of `rules.Rules` that the loops know."""

    eos: int
    beam: int
    alpha: float
    n_best: int
    suppressed: NDArray[np.bool_]  # (V,)
    ends: NDArray[np.bool_]  # (V,): tokens that finish a hypothesis
    considered: int  # candidates of a source


class Found(NamedTuple):
    """The W best answers to each source, best first."""

    tokens: Ints  # (N, W, T), with the end token
    log_probabilities: Floats  # (N, W, T), the same
    lengths: Ints  # (N, W): numbers of log-probabilities
    totals: NDArray[np.float64]  # (N, W)
    scores: NDArray[np.float64]  # (N, W)
    finished: NDArray[np.bool_]  # (N, W)
    n_found: Ints  # (N,): answers found, of which at most W are kept
    failed: Ints  # (2,): the source and step where a probability was NaN, or -1


class Beams(NamedTuple):
    """The live hypotheses. A total of -inf marks an empty slot."""

    source: Ints  # (B,): index of the source, or -1
    held: Ints  # (B,): tokens in the cache
    length: Ints  # (B,): tokens of the output
    totals: NDArray[np.float64]  # (B, W)
    tokens: Ints  # (B, W, T)
    log_probabilities: Floats  # (B, W, T)
    rows: Ints  # (B, W): the row of each hypothesis in the current step


class Top(NamedTuple):
    """The best candidates of one source, best first: 2 W, and W for each further end token."""

    totals: NDArray[np.float64]
    beams: Ints
    tokens: Ints
    log_probabilities: Floats
