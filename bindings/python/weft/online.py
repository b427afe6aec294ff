# SPDX-License-Identifier: Apache-2.0
"""Models with the calls of river: `learn_one(x, y)`, `predict_one(x)`, `predict_proba_one(x)`; x is a dictionary."""
from __future__ import annotations

import math
from typing import Any, Dict, Hashable, List, Mapping, Optional, Sequence

import numpy as np

from .learner import Learner
from .mesh import Mesh
from .network import Network


class _Online:
    """Features by name, scaled by their running mean and deviation (Welford 1962); one that is missing counts as 0."""

    def __init__(self, features: Sequence[Hashable], outputs: int, hidden: Sequence[int], activation: str, seed: int,
                 options: Dict[str, Any]) -> None:
        self.features: List[Hashable] = list(features)
        layers = [{"type": "dense", "out": int(width), "activation": activation} for width in hidden]
        network = Network.chain(len(self.features), [*layers, {"type": "dense", "out": outputs}], seed=seed)
        self.mesh = Mesh(network, threads=1)
        self.learner = Learner(self.mesh, **options)
        self._count, self._mean = 0, np.zeros(len(self.features))
        self._squares = np.zeros(len(self.features))

    def _values(self, x: Mapping[Hashable, float], is_new: bool = False) -> np.ndarray:
        values = np.array([x.get(name, 0.0) for name in self.features], np.float64)
        if is_new:
            self._count += 1
            difference = values - self._mean
            self._mean += difference / self._count
            self._squares += difference * (values - self._mean)
        deviation = np.sqrt(self._squares / max(1, self._count))
        return ((values - self._mean) / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)


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
        if y not in self.classes:
            if len(self.classes) == self.most_classes:
                raise ValueError(f"label {y!r} would be class {self.most_classes + 1} of {self.most_classes}")
            self.classes.append(y)
        self.learner.learn_one(self._values(x, True), self.classes.index(y))
        return self

    def predict_proba_one(self, x: Mapping[Hashable, float]) -> Dict[Hashable, float]:
        """Shares of the classes that came so far."""
        if not self.classes:
            return {}
        answer = self.learner.predict_one(self._values(x))[:len(self.classes)].astype(np.float64)
        shares = np.exp(answer - answer.max())
        return dict(zip(self.classes, (shares / shares.sum()).tolist()))

    def predict_one(self, x: Mapping[Hashable, float]) -> Optional[Hashable]:
        shares = self.predict_proba_one(x)
        return max(shares, key=shares.__getitem__) if shares else None


class OnlineRegressor(_Online):
    """One value; scaled by its running mean and deviation."""

    def __init__(self, features: Sequence[Hashable], *, hidden: Sequence[int] = (16,), activation: str = "tanh",
                 seed: int = 0, **options: Any) -> None:
        options.setdefault("optimizer", {"type": "adamw", "lr": 0.01})
        options.setdefault("loss", "mse")
        super().__init__(features, 1, hidden, activation, seed, options)
        self._target_mean, self._target_squares = 0.0, 0.0

    def _deviation(self) -> float:
        deviation = math.sqrt(self._target_squares / max(1, self._count))
        return deviation if deviation > 0 else 1.0

    def learn_one(self, x: Mapping[Hashable, float], y: float) -> "OnlineRegressor":
        values = self._values(x, True)
        difference = y - self._target_mean
        self._target_mean += difference / self._count
        self._target_squares += difference * (y - self._target_mean)
        self.learner.learn_one(values, [(y - self._target_mean) / self._deviation()])
        return self

    def predict_one(self, x: Mapping[Hashable, float]) -> float:
        return float(self.learner.predict_one(self._values(x))[0]) * self._deviation() + self._target_mean
