# SPDX-License-Identifier: Apache-2.0
"""Weft: systolic neural meshes that tick, and learn in their ticks. docs/python.md is the page to begin with."""
from . import environments
from ._library import lib as _lib
from .environments import Environment
from .errors import (WeftError, WeftFileError, WeftFileNotFoundError, WeftLookupError, WeftMemoryError, WeftTypeError,
                     WeftValueError)
from .language_model import LanguageModel
from .learner import NO_LABEL, Agent, Learner
from .log import set_log
from .mesh import COMMANDS, Answer, Mesh, Snapshot
from .network import Network, devices, take_flushed_results
from .online import OnlineClassifier, OnlineRegressor
from .progressive import Progress, progressive_validation

__version__ = _lib.version().decode()
__all__ = ["Agent", "Answer", "COMMANDS", "Environment", "LanguageModel", "Learner", "Mesh", "NO_LABEL", "Network",
           "OnlineClassifier", "OnlineRegressor", "Progress", "Snapshot",
           "WeftError", "WeftFileError", "WeftFileNotFoundError", "WeftLookupError", "WeftMemoryError", "WeftTypeError",
           "WeftValueError", "devices", "environments",
           "progressive_validation",
           "set_log", "take_flushed_results", "__version__"]
