# SPDX-License-Identifier: Apache-2.0
"""Progressive validation: each sample is predicted, scored, then learned (Gama et al. 2013; river's term)."""
from __future__ import annotations

import collections
from typing import Any, Deque, Iterable, Iterator, NamedTuple, Optional, Tuple

import numpy as np

from .learner import Learner


class Progress(NamedTuple):
    samples: int
    accuracy: float         # of all samples so far
    recent_accuracy: float  # of the last `window`


def progressive_validation(learner: Learner, stream: Iterable[Tuple[Any, int]], *, window: int = 1000,
                           every: Optional[int] = None) -> Iterator[Progress]:
    """Samples (x [width], label) of a stream, one by one; yields every so many samples, and at the end."""
    hits, recent, samples = 0, collections.deque(maxlen=window), 0  # type: int, Deque[bool], int
    for x, label in stream:
        is_hit = int(np.argmax(learner.predict_one(x))) == int(label)
        learner.learn_one(x, int(label))
        samples += 1
        hits += is_hit
        recent.append(is_hit)
        if every and samples % every == 0:
            yield Progress(samples, hits / samples, sum(recent) / len(recent))
    if samples and not (every and samples % every == 0):
        yield Progress(samples, hits / samples, sum(recent) / len(recent))
