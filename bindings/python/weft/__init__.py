# SPDX-License-Identifier: Apache-2.0
"""Weft: systolic neural meshes that tick, and learn in their ticks. docs/python.md is the page to begin with."""
from ._library import lib as _lib
from .errors import WeftError, WeftFileError, WeftMemoryError, WeftValueError
from .language_model import LanguageModel
from .learner import NO_LABEL, Agent, Learner
from .mesh import COMMANDS, Answer, Mesh, Snapshot
from .network import Network, devices, set_log
from .online import OnlineClassifier, OnlineRegressor
from .progressive import Progress, progressive_validation

__version__ = _lib.version().decode()
__all__ = ["Agent", "Answer", "COMMANDS", "LanguageModel", "Learner", "Mesh", "NO_LABEL", "Network",
           "OnlineClassifier", "OnlineRegressor", "Progress", "Snapshot",
           "WeftError", "WeftFileError", "WeftMemoryError", "WeftValueError", "devices", "progressive_validation",
           "set_log", "__version__"]
