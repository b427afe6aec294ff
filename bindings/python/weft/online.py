# SPDX-License-Identifier: Apache-2.0
"""Models with the calls of river: `learn_one(x, y)`, `predict_one(x)`, `predict_proba_one(x)`; x is a dictionary."""
from __future__ import annotations

from typing import Any, Dict, Hashable, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from ._library import listed, numbers, truth, whole
from .errors import refused, wrong_kind
from .learner import Learner
from .mesh import Mesh
from .network import Network


class _Moments(NamedTuple):
    """Running mean and sum of squared differences (Welford 1962); values beside them are not changed."""
    samples: int
    mean: np.ndarray
    squares: np.ndarray

    def with_values(self, values: np.ndarray, what: str) -> "_Moments":
        """With one more row. @error ValueError: they would not be finite"""
        with np.errstate(all="ignore"):
            difference = values - self.mean
            mean = self.mean + difference / (self.samples + 1)
            squares = self.squares + difference * (values - mean)
        if not (np.isfinite(mean).all() and np.isfinite(squares).all()):
            raise refused("not_finite", f"{what}: {np.asarray(values).tolist()}; it is to be finite, and its square too")
        return _Moments(self.samples + 1, mean, squares)

    def deviation(self) -> np.ndarray:
        deviation = np.sqrt(self.squares / max(1, self.samples))
        return np.where(deviation > 0, deviation, 1.0)


class _Online:
    """Features by name, scaled by their running mean and deviation (Welford 1962); one that is missing counts as 0.

    A sample that is refused changes nothing. Pickled ones go on where they were, to the bit.
    """

    def __init__(self, features: Sequence[Hashable], outputs: int, hidden: Sequence[int], activation: str, seed: int,
                 options: Dict[str, Any]) -> None:
        self.features: List[Hashable] = listed(features, "features")
        for name in self.features:
            _check_is_name(name, "feature")
        layers = [{"type": "dense", "out": whole(width, "hidden"), "activation": activation}
                  for width in listed(hidden, "hidden")]
        network = Network.chain(len(self.features), [*layers, {"type": "dense", "out": outputs}], seed=seed)
        self.mesh = Mesh(network, threads=1)
        self.learner = Learner(self.mesh, **options)
        self._moments = _Moments(0, np.zeros(len(self.features)), np.zeros(len(self.features)))

    def _given(self, x: Mapping[Hashable, float]) -> np.ndarray:
        if not hasattr(x, "get"):
            raise wrong_kind(f"x: {x!r} is no dictionary of numbers by feature")
        return numbers([x.get(name, 0.0) for name in self.features], np.float64, "x")

    def _scaled(self, values: np.ndarray, moments: "_Moments") -> np.ndarray:
        return ((values - moments.mean) / moments.deviation()).astype(np.float32)

    def __getstate__(self) -> Dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "mesh"}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.mesh = self.learner.mesh


def _check_is_name(name: Any, what: str) -> None:
    try:
        hash(name)
    except TypeError as error:
        raise wrong_kind(f"{what} {name!r}: {error}") from None


class OnlineClassifier(_Online):
    """Labels are taken up as they come, `most_classes` of them."""

    def __init__(self, features: Sequence[Hashable], *, most_classes: int = 16, hidden: Sequence[int] = (16,),
                 activation: str = "tanh", seed: int = 0, **options: Any) -> None:
        """`options`: those of a network file's section "learning"."""
        options.setdefault("optimizer", {"type": "adamw", "lr": 0.01})
        super().__init__(features, most_classes, hidden, activation, seed, options)
        self.most_classes = most_classes
        self.classes: List[Hashable] = []

    def learn_one(self, x: Mapping[Hashable, float], y: Hashable) -> "OnlineClassifier":
        """Learns one sample: numbers by feature, and its label. @error ValueError: a number that is not finite, a
        label that is NaN, or more classes than `most_classes`; the model is then as before"""
        _check_is_name(y, "label")
        if y is None or truth(y != y, "label"):
            raise refused("invalid_argument", f"label {y!r}: no class can be told from it")
        is_new = y not in self.classes
        if is_new and len(self.classes) == self.most_classes:
            raise refused("out_of_range", f"label {y!r} would be class {self.most_classes + 1} of {self.most_classes}")
        values = self._given(x)
        moments = self._moments.with_values(values, "x")
        self.learner.learn_one(self._scaled(values, moments), len(self.classes) if is_new else self.classes.index(y))
        self._moments = moments
        if is_new:
            self.classes.append(y)
        return self

    def predict_proba_one(self, x: Mapping[Hashable, float]) -> Dict[Hashable, float]:
        """Shares of the classes that came so far."""
        if not self.classes:
            return {}
        answer = self.learner.predict_one(self._scaled(self._given(x), self._moments))[:len(self.classes)].astype(np.float64)
        shares = np.exp(answer - answer.max())
        return dict(zip(self.classes, (shares / shares.sum()).tolist()))

    def predict_one(self, x: Mapping[Hashable, float]) -> Optional[Hashable]:
        """The likeliest class; None before the first was learned."""
        shares = self.predict_proba_one(x)
        return max(shares, key=shares.__getitem__) if shares else None


class OnlineRegressor(_Online):
    """One value; scaled by its running mean and deviation."""

    def __init__(self, features: Sequence[Hashable], *, hidden: Sequence[int] = (16,), activation: str = "tanh",
                 seed: int = 0, **options: Any) -> None:
        options.setdefault("optimizer", {"type": "adamw", "lr": 0.01})
        options.setdefault("loss", "mse")
        super().__init__(features, 1, hidden, activation, seed, options)
        self._targets = _Moments(0, np.zeros(()), np.zeros(()))

    def learn_one(self, x: Mapping[Hashable, float], y: float) -> "OnlineRegressor":
        """Learns one sample: numbers by feature, and its value. @error ValueError: a number that is not finite; the
        model is then as before"""
        values, value = self._given(x), numbers(y, np.float64, "y")
        moments = self._moments.with_values(values, "x")
        targets = self._targets.with_values(value, "y")
        self.learner.learn_one(self._scaled(values, moments), [(value - targets.mean) / targets.deviation()])
        self._moments, self._targets = moments, targets
        return self

    def predict_one(self, x: Mapping[Hashable, float]) -> float:
        """The value expected for numbers by feature."""
        answer = float(self.learner.predict_one(self._scaled(self._given(x), self._moments))[0])
        return answer * float(self._targets.deviation()) + float(self._targets.mean)
