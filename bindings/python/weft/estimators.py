# SPDX-License-Identifier: Apache-2.0
"""Estimators for scikit-learn: a classifier and a regressor that also learn on, sample by sample.

Needs scikit-learn; nothing else of the package imports this module.
"""
from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state

try:
    from sklearn.utils.validation import validate_data as _validate_data
except ImportError:  # before scikit-learn 1.6 it was a method
    def _validate_data(estimator: Any, *arrays: Any, **options: Any) -> Any:
        return estimator._validate_data(*arrays, **options)

from .errors import refused
from .learner import Learner
from .mesh import Mesh
from .network import Network

_LARGEST = float(np.finfo(np.float32).max) / 4


class _Estimator(BaseEstimator):
    """A chain of dense layers, and features scaled by the first data that it sees: common to both."""

    def __init__(self, hidden: Sequence[int] = (32,), activation: str = "tanh", rule: str = "backprop",
                 epochs: int = 60, learning_rate: float = 0.01, standardize: bool = True, random_state: Any = 0) -> None:
        """hidden: widths. epochs: passes over the samples of `fit`, in an order drawn anew each time.

        rule: as `learning.rule` of a network file. Answers are the same bits on every machine and number of threads.
        """
        self.hidden = hidden
        self.activation = activation
        self.rule = rule
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.standardize = standardize
        self.random_state = random_state

    # Steps of fit and partial_fit

    def _begin(self, X: np.ndarray, outputs: int, loss: Optional[str]) -> None:
        self._close()
        seed = int(check_random_state(self.random_state).randint(2 ** 31))
        layers = [{"type": "dense", "out": int(width), "activation": self.activation} for width in self.hidden]
        network = Network.chain(X.shape[1], [*layers, {"type": "dense", "out": outputs}], seed=seed)
        self.mesh_ = Mesh(network, threads=1)
        self.seed_ = seed
        self.n_iter_ = 0
        self.mean_, self.scale_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.standardize:
            self.mean_ = X.mean(axis=0)
            deviation = X.std(axis=0)
            self.scale_ = np.where(deviation > 0, deviation, 1.0)
        options: Dict[str, Any] = {"rule": self.rule, "optimizer": {"type": "adamw", "lr": self.learning_rate}}
        if loss:
            options["loss"] = loss
        self.learning_ = options
        self._learner = Learner(self.mesh_, **options)

    def _close(self) -> None:
        learner = self.__dict__.pop("_learner", None)
        if learner is not None:
            learner.close()

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return np.clip((X - self.mean_) / self.scale_, -_LARGEST, _LARGEST).astype(np.float32)

    def _learn(self, X: np.ndarray, targets: np.ndarray, epochs: int, in_order: bool = False) -> None:
        x = self._scaled(X)
        random = np.random.RandomState(self.seed_)
        for _ in range(epochs):
            order = np.arange(len(x)) if in_order else random.permutation(len(x))
            self._learner.learn({"x": x[order]}, {"y": targets[order]})
            self._learner.scores()
            self.n_iter_ += 1
        self._learner.drain()

    def _answers(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = _validate_data(self, X, reset=False, dtype=np.float64)
        return self.mesh_.forward({"x": self._scaled(X)})["y"].astype(np.float64)

    def __getstate__(self) -> Dict[str, Any]:
        """With the learner, whose optimizer goes on where it was; the mesh is the learner's."""
        state = dict(super().__getstate__())
        if "_learner" in state:
            state.pop("mesh_", None)
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_learner" in self.__dict__:
            self.mesh_ = self._learner.mesh


class WeftClassifier(ClassifierMixin, _Estimator):
    """Labels of any kind, learned by cross-entropy."""

    def fit(self, X: Any, y: Any) -> "WeftClassifier":
        """X [samples, features], y [samples]."""
        X, y = _validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        self._begin(X, max(2, len(self.classes_)), None)
        self._learn(X, labels, int(self.epochs))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> "WeftClassifier":
        """One pass in the order given, and no more; the first call needs all classes that will come."""
        is_new = not hasattr(self, "mesh_")
        X, y = _validate_data(self, X, y, dtype=np.float64, reset=is_new)
        check_classification_targets(y)
        if is_new:
            self.classes_ = np.unique(y if classes is None else classes)
            self._begin(X, max(2, len(self.classes_)), None)
        labels = np.searchsorted(self.classes_, y)
        if not np.array_equal(self.classes_[np.minimum(labels, len(self.classes_) - 1)], y):
            raise refused("unknown_name", f"y has a label that is none of classes {list(self.classes_)}")
        self._learn(X, labels, 1, in_order=True)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """[samples, classes]"""
        answers = self._answers(X)[:, :len(self.classes_)]
        shares = np.exp(answers - answers.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """[samples]"""
        answers = self._answers(X)[:, :len(self.classes_)]
        return self.classes_[answers.argmax(axis=1)]


class WeftRegressor(RegressorMixin, _Estimator):
    """One value a sample, learned by squared error; its scale is that of the first data that it sees."""

    def fit(self, X: Any, y: Any) -> "WeftRegressor":
        """X [samples, features], y [samples]."""
        X, y = _validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._begin(X, 1, "mse")
        self._scale_targets(y)
        self._learn(X, self._targets(y), int(self.epochs))
        return self

    def partial_fit(self, X: Any, y: Any) -> "WeftRegressor":
        """One pass in the order given, and no more."""
        is_new = not hasattr(self, "mesh_")
        X, y = _validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=is_new)
        if is_new:
            self._begin(X, 1, "mse")
            self._scale_targets(y)
        self._learn(X, self._targets(y), 1, in_order=True)
        return self

    def _scale_targets(self, y: np.ndarray) -> None:
        self.target_mean_ = float(np.mean(y))
        deviation = float(np.std(y))
        self.target_deviation_ = deviation if deviation > 0 else 1.0

    def _targets(self, y: np.ndarray) -> np.ndarray:
        scaled = (np.asarray(y, np.float64) - self.target_mean_) / self.target_deviation_
        return scaled.astype(np.float32).reshape(-1, 1)

    def predict(self, X: Any) -> np.ndarray:
        """[samples]"""
        return self._answers(X)[:, 0] * self.target_deviation_ + self.target_mean_
