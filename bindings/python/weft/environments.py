# SPDX-License-Identifier: Apache-2.0
"""Worlds to act in, with Gymnasium's calls (Towers et al. 2023); Gymnasium itself is not needed.

    environment = weft.environments.make("cartpole")
    observation, info = environment.reset(seed=1)
    observation, reward, terminated, truncated, info = environment.step(environment.action_space.sample())
"""
from __future__ import annotations

import ctypes
import json
from ctypes import c_size_t, c_void_p
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from . import _library
from ._library import address, floats, lib
from .errors import WeftError
from .network import Handle


def _random_of(seed: Optional[int]) -> np.random.RandomState:
    return np.random.RandomState(None if seed is None else _library.whole(seed, "seed", 2 ** 32 - 1))


class Discrete:
    """Whole numbers from 0 to n - 1."""

    def __init__(self, n: int) -> None:
        self.n, self.shape, self.dtype = n, (), np.dtype(np.int64)
        self._random = np.random.RandomState(0)

    def seed(self, seed: Optional[int] = None) -> None:
        """Begins the draws of `sample` anew; None: anywhere."""
        self._random = _random_of(seed)

    def sample(self) -> int:
        """One of them."""
        return int(self._random.randint(self.n))

    def contains(self, x: Any) -> bool:
        """True for a whole number of the space."""
        return isinstance(x, (int, np.integer)) and bool(0 <= x < self.n)

    def __repr__(self) -> str:
        return f"Discrete({self.n})"


class Box:
    """Arrays [width] of float32 between two bounds."""

    def __init__(self, low: float, high: float, width: int) -> None:
        self.shape, self.dtype = (width,), np.dtype(np.float32)
        self.low, self.high = np.full(width, low, np.float32), np.full(width, high, np.float32)
        self._random = np.random.RandomState(0)

    def seed(self, seed: Optional[int] = None) -> None:
        """Begins the draws of `sample` anew; None: anywhere."""
        self._random = _random_of(seed)

    def sample(self) -> np.ndarray:
        """One of them, [width]; of a space without bounds normally distributed."""
        if np.isinf(self.low).any():
            return self._random.normal(size=self.shape).astype(np.float32)
        return self._random.uniform(self.low, self.high).astype(np.float32)

    def contains(self, x: Any) -> bool:
        """True for an array of the shape between the bounds."""
        try:
            array = _library.numbers(x)
        except WeftError:
            return False
        return array.dtype.kind in "biuf" and array.shape == self.shape and bool(((array >= self.low) & (array <= self.high)).all())

    def __repr__(self) -> str:
        return f"Box({self.low[0]}, {self.high[0]}, {self.shape}, float32)"


class Environment(Handle):
    """A world of which episodes are functions of seed and number, the same bits on every machine.

    One thread at a time. Pickled or copied ones go on where they were.
    """
    _destroy = staticmethod(lib.environment_destroy)
    metadata: Dict[str, Any] = {"render_modes": []}

    def __init__(self, name: str, *, length: int = 0) -> None:
        """name: one of `names()`. length: steps between bit and question of memory_chain (0: 16), of a turn of turns and
        chase (0: 20000)."""
        handle = c_void_p()
        options = _library.EnvironmentOptions(length=length)
        lib.environment_create(_library.text(name, "name"), ctypes.byref(options), handle)
        super().__init__(handle)
        shape = _library.EnvironmentShape()
        lib.environment_describe(handle, ctypes.byref(shape))
        self.name, self._length = name, length
        self.observation_space = Box(-np.inf, np.inf, shape.observations)
        self.action_space: Any = Discrete(shape.choices) if shape.choices else Box(-2.0, 2.0, shape.values)
        self.limit = shape.limit
        self._seed, self._episode = 0, -1

    def reset(self, *, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None) -> Tuple[np.ndarray, Dict[str, Any]]:
        """Begins an episode: observation [observations] and an empty dictionary.

        With a seed it is the first episode of that seed (options {"episode": n}: the n-th, from 0); without one, the
        next of the seed before.
        """
        if seed is not None:
            self._seed, self._episode = _library.whole(seed, "seed", 2 ** 64 - 1), -1
        episode = dict(_library.items({} if options is None else options, "options")).get("episode", self._episode + 1)
        self._episode = _library.whole(episode, "episode", 2 ** 64 - 1)
        lib.environment_reset(self._handle, self._seed, self._episode)
        return self._observation(), {}

    def step(self, action: Any) -> Tuple[np.ndarray, float, bool, bool, Dict[str, Any]]:
        """Acts: observation [observations], reward, terminated, truncated, an empty dictionary.

        action: a whole number, or values [width], as `action_space` says. @error WeftValueError: another one, or the
        episode has ended
        """
        choice, values = 0, np.empty(0, np.float32)
        if isinstance(self.action_space, Discrete):
            choice = _library.whole(action, "action", 2 ** 32 - 1)
        else:
            values = floats(action)
        result = _library.EnvironmentResult()
        lib.environment_step(self._handle, choice, address(values), values.size, ctypes.byref(result))
        return self._observation(), result.reward, bool(result.terminated), bool(result.truncated), {}

    @property
    def state(self) -> np.ndarray:
        """The numbers that the world consists of, float64, for a picture of it."""
        needed = c_size_t()
        lib.environment_state(self._handle, None, 0, needed)
        made = np.empty(needed.value, np.float64)
        lib.environment_state(self._handle, address(made), made.size, needed)
        return made

    def state_hash(self) -> str:
        """32 hex digits: equal worlds, equal text."""
        return _library.read_text(lib.environment_hash, self._handle)

    def to_bytes(self) -> bytes:
        """The world as bytes; `restore` goes on with it."""
        return _library.read_bytes(lib.environment_save, self._handle)

    def restore(self, saved: bytes) -> None:
        """Puts it back to where `to_bytes` was taken. @error WeftError: of another world, or damaged"""
        given = _library.buffer(saved, "saved")
        lib.environment_restore(self._handle, given, len(given))

    def _observation(self) -> np.ndarray:
        return _library.read_floats(lib.environment_observation, self._handle)

    def __reduce__(self) -> Any:
        return _restored, (self.name, self._length, self._seed, self._episode, self.to_bytes())

    def __repr__(self) -> str:
        return f"<weft.Environment {self.name!r}>"


def _restored(name: str, length: int, seed: int, episode: int, saved: bytes) -> Environment:
    made = Environment(name, length=length)
    made._seed, made._episode = seed, episode
    made.restore(saved)
    return made


def make(name: str, **options: Any) -> Environment:
    """An environment by its name."""
    return Environment(name, **options)


def names() -> List[str]:
    """Environments that there are."""
    return [row["name"] for row in json.loads(_library.read_text(lib.environments))]
