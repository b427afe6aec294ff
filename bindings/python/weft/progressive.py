# SPDX-License-Identifier: Apache-2.0
"""Progressive validation: each sample is predicted, scored, then learned (Gama et al. 2013; river's term)."""
from __future__ import annotations

import collections
import math
from typing import Any, Deque, Iterable, Iterator, NamedTuple, Optional, Tuple

import numpy as np

from ._library import each_of, listed, numbers, whole
from .errors import refused, wrong_kind
from .learner import Learner


class Progress(NamedTuple):
    """Scores of the samples so far. Of classes: accuracies; of values: errors; the others are NaN."""
    samples: int
    accuracy: float            # of all samples so far
    recent_accuracy: float     # of the last `window`
    error: float = math.nan         # mean absolute difference
    recent_error: float = math.nan
    metric: Optional[float] = None  # metric.get()


class _Scores:
    """Hits of classes, or absolute differences of values."""

    def __init__(self, window: int, metric: Any) -> None:
        self.samples, self.sum, self.metric = 0, 0.0, metric
        self.recent: Deque[float] = collections.deque(maxlen=window)
        self.has_classes = True

    def add(self, target: Any, prediction: Any, has_classes: bool) -> None:
        self.samples += 1
        self.has_classes = has_classes
        if has_classes:
            score = float(prediction is not None and prediction == target)
        else:
            score = float(np.mean(np.abs(numbers(target, np.float64, "target") - numbers(prediction, np.float64, "prediction"))))
        self.sum += score
        self.recent.append(score)
        if self.metric is not None and prediction is not None:
            self.metric.update(target, prediction)

    def progress(self) -> Progress:
        mean, recent = self.sum / self.samples, sum(self.recent) / len(self.recent)
        got = None if self.metric is None else self.metric.get()
        if self.has_classes:
            return Progress(self.samples, mean, recent, metric=got)
        return Progress(self.samples, math.nan, math.nan, mean, recent, got)


def _is_label(target: Any) -> bool:
    return isinstance(target, (int, np.integer)) and not isinstance(target, (bool, np.bool_))


def progressive_validation(model: Any, stream: Iterable[Tuple[Any, Any]], *, window: int = 1000,
                           every: Optional[int] = None, metric: Any = None, delay: int = 0) -> Iterator[Progress]:
    """Samples (x, target) of a stream, one by one; yields every so many samples, and at the end.

    model: a Learner (x [width]; a whole number is a label, else the target is values [width]), or what has river's
    calls: `predict_one(x)`, `learn_one(x, y)`. With `predict_proba_one`, or targets that are no numbers, it tells
    classes. metric: what has river's `update(y_true, y_pred)` and `get()`; a model that says None is not told to it.
    delay: the target of a sample comes so many samples later, before that sample is predicted; its prediction is the
    one of then. Targets that are left come at the end, in order.
    """
    delay, every = whole(delay, "delay"), None if every is None else whole(every, "every")
    if whole(window, "window") < 1:
        raise refused("out_of_range", f"window: {window} is not from 1")
    if not hasattr(model, "predict_one") or not hasattr(model, "learn_one"):
        raise wrong_kind(f"model: {model!r} has no learn_one and predict_one")
    scores = _Scores(window, metric)
    waiting: Deque[Tuple[int, Any, Any, Any]] = collections.deque()

    def predict(x: Any, target: Any) -> Any:
        answer = model.predict_one(x)
        return int(np.argmax(answer)) if isinstance(model, Learner) and _is_label(target) else answer

    def has_classes(target: Any) -> bool:
        if isinstance(model, Learner):
            return _is_label(target)
        return hasattr(model, "predict_proba_one") or numbers(target, what="target").dtype.kind not in "iuf"

    def come(due: float) -> Iterator[Progress]:
        while waiting and waiting[0][0] <= due:
            _, x, target, prediction = waiting.popleft()
            scores.add(target, prediction, has_classes(target))
            model.learn_one(x, int(target) if isinstance(model, Learner) and _is_label(target) else target)
            if every and scores.samples % every == 0:
                yield scores.progress()

    for number, sample in enumerate(each_of(stream, "stream")):
        pair = listed(sample, "sample")
        if len(pair) != 2:
            raise refused("shape_mismatch", f"sample {number}: {len(pair)} things, where x and target are two")
        x, target = pair
        yield from come(number)
        waiting.append((number + delay, x, target, predict(x, target)))
        if delay == 0:
            yield from come(number)
    yield from come(math.inf)
    if scores.samples and not (every and scores.samples % every == 0):
        yield scores.progress()
