# SPDX-License-Identifier: Apache-2.0
"""Language models that write on from a prompt."""
from __future__ import annotations

import ctypes
import json
import os
import sys
from ctypes import c_size_t, c_void_p
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from . import _library, _threads
from ._library import address, floats, lib
from .errors import refused, wrong_kind
from .network import Handle


def _given(value: Any, zero: Any, convert: Callable[[Any, str], Any], what: str) -> Any:
    """The value for the C ABI, where 0 is the default; `zero` says 0 there."""
    return 0 if value is None else convert(value, what) or zero


def _number(value: Any, convert: Callable[[Any, str], Any], what: str, least: int = 0) -> Any:
    """As `_given`, of a field that what is below `least` makes 0."""
    number = 0 if value is None else convert(value, what)
    if not number >= least:
        raise refused("out_of_range", f"{what}: {number} is not from {least} on")
    return 0 if value is None else number or least - 1


def _integer(value: Any, what: str) -> int:
    is_negative = isinstance(value, (int, np.integer)) and value < 0
    return -_library.whole(-int(value), what) if is_negative else _library.whole(value, what, 2 ** 63 - 1)


def _options(tokenizer: "str | os.PathLike[str] | None", threads: int, max_memory: int) -> _library.ModelOptions:
    mesh = _library.MeshOptions(threads=threads, max_memory=max_memory)
    return _library.ModelOptions(mesh=ctypes.pointer(mesh),
                                 tokenizer=None if tokenizer is None else _library.path(tokenizer))


class LanguageModel(Handle):
    """Weights and tokenizer of what `weft import` made, or of a Hugging Face folder or GGUF file that it takes."""
    _destroy = staticmethod(lib.model_destroy)

    def __init__(self, path: "str | os.PathLike[str]", tokenizer: "str | os.PathLike[str] | None" = None, *,
                 threads: int = 0, max_memory: int = 0) -> None:
        options = _options(tokenizer, threads, max_memory)
        handle = c_void_p()
        lib.model_load(_library.path(path), ctypes.byref(options), handle)
        super().__init__(handle)

    @classmethod
    def from_bytes(cls, files: "Any | Dict[str, Any]", tokenizer: "str | os.PathLike[str] | None" = None, *,
                   threads: int = 0, max_memory: int = 0) -> "LanguageModel":
        """Of files in memory: the bytes of one (of weft import, or GGUF), or those of a folder by their names, as
        {"config.json": ..., "model.safetensors": ..., "tokenizer.json": ...}. Linux only; they are copied meanwhile."""
        named = files.items() if isinstance(files, dict) else [("model", files)]
        kept = [(_library.text(name, "files"), _library.buffer(content, f"files: {name}"))
                for name, content in named]
        given = (_library.FileBytes * max(len(kept), 1))(
            *[_library.FileBytes(name, ctypes.cast(ctypes.c_char_p(content), c_void_p), len(content)) for name, content in kept])
        options = _options(tokenizer, threads, max_memory)
        handle = c_void_p()
        lib.model_load_bytes(ctypes.cast(given, c_void_p), len(kept), ctypes.byref(options), handle)
        model = cls.__new__(cls)
        Handle.__init__(model, handle)
        return model

    def tokenize(self, text: str) -> List[int]:
        """Ids, with those that the model expects around a text."""
        needed = c_size_t()
        encoded = _library.text(text, "text")
        lib.model_tokenize(self._handle, encoded, None, 0, needed)
        ids = np.empty(needed.value, np.uint32)
        lib.model_tokenize(self._handle, encoded, address(ids), ids.size, needed)
        return ids.tolist()

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of tokens [count]; ids that stand for nothing are passed over."""
        given = np.array([_library.whole(token, "id", 2 ** 32 - 1) for token in _library.listed(ids, "ids")], np.uint32)
        return _library.read_text(lib.model_detokenize, self._handle, address(given), given.size)

    def generate(self, prompt: str, *, tokens: Optional[int] = None, temperature: Optional[float] = None,
                 top_k: Optional[int] = None, top_p: Optional[float] = None, min_p: Optional[float] = None,
                 seed: int = 0, context: int = 0, stops: Sequence[str] = (), ignores_ends: bool = False,
                 max_memory: int = 0, on_text: Optional[Callable[[str], Any]] = None, typical_p: float = 0.0,
                 repetition_penalty: float = 0.0, presence_penalty: float = 0.0, frequency_penalty: float = 0.0,
                 penalty_window: Optional[int] = None, no_repeat_ngram: int = 0,
                 logit_bias: Optional[Dict[int, float]] = None, grammar: Optional[str] = None,
                 json_schema: Optional[Any] = None, preset: Optional[str] = None,
                 samplers: "str | Sequence[str] | None" = None, dynatemp_range: Optional[float] = None,
                 dynatemp_exponent: Optional[float] = None, top_n_sigma: Optional[float] = None,
                 xtc_probability: Optional[float] = None, xtc_threshold: Optional[float] = None,
                 mirostat: Optional[int] = None, mirostat_tau: Optional[float] = None,
                 mirostat_eta: Optional[float] = None, dry_multiplier: Optional[float] = None,
                 dry_base: Optional[float] = None, dry_allowed_length: Optional[int] = None,
                 dry_penalty_last_n: Optional[int] = None,
                 dry_sequence_breakers: Optional[Sequence[str]] = None) -> Dict[str, Any]:
        """Continuation of the prompt: text, ids, prompt_ids, end ("end", "stop", "length"), seconds, prompt_seconds.

        The text is a function of model, prompt and options. None: the default of `weft generate` (docs/cli.md).
        temperature 0: always the likeliest token; top_k 0, min_p 0: all; top_p 0: the likeliest alone.
        on_text gets text as it becomes certain, on the caller's thread; what it raises, and what a signal raises
        meanwhile (KeyboardInterrupt), ends the text and is raised.
        penalty_window 0: penalties look at all tokens. grammar: GBNF that the text follows; json_schema: a schema, as
        JSON's text or a dict. preset "hf": what is not given is as the model's generation_config.json and transformers
        have it; samplers: the steps in their order, as "top_k;temperature" or a list; docs/models.md says the rest.
        """
        if isinstance(stops, (str, bytes)):
            raise wrong_kind(f"stops: {stops!r} is one text; a list of texts is wanted")
        if tokens is not None and _library.whole(tokens, "tokens") < 1:
            raise refused("out_of_range", f"tokens: {tokens} is less than 1")
        if on_text is not None and not callable(on_text):
            raise wrong_kind(f"on_text: {on_text!r} cannot be called")
        if temperature is not None:
            temperature = _library.real(temperature, "temperature")
        ends = [_library.text(stop, "stops") for stop in _library.listed(stops, "stops")]
        texts = (ctypes.c_char_p * len(ends))(*ends)
        bias = sorted((_library.whole(token, "logit_bias", 2 ** 32 - 1), _library.real(value, "logit_bias"))
                      for token, value in _library.items({} if logit_bias is None else logit_bias, "logit_bias"))
        bias_ids = np.array([token for token, _ in bias], np.uint32)
        biases = floats([value for _, value in bias])
        breaking = [_library.text(each, "dry_sequence_breakers")
                    for each in _library.listed(dry_sequence_breakers or (), "dry_sequence_breakers")]
        breaking_texts = None if dry_sequence_breakers is None else (ctypes.c_char_p * max(len(breaking), 1))(*breaking)
        reals = {"dynatemp_range": dynatemp_range, "dynatemp_exponent": dynatemp_exponent,
                 "xtc_probability": xtc_probability, "xtc_threshold": xtc_threshold, "mirostat_tau": mirostat_tau,
                 "mirostat_eta": mirostat_eta, "dry_multiplier": dry_multiplier, "dry_base": dry_base}
        wholes = {"mirostat": mirostat, "dry_allowed_length": dry_allowed_length}
        schema = json_schema if json_schema is None or isinstance(json_schema, str) else \
            _library.json_text(json_schema, "json_schema").decode()
        options = _library.GenerateOptions(
            tokens=0 if tokens is None else tokens, temperature=temperature or 0.0,
            top_k=_given(top_k, 2 ** 64 - 1, _library.whole, "top_k"),
            top_p=_given(top_p, sys.float_info.min, _library.real, "top_p"),
            min_p=_given(min_p, -1.0, _library.real, "min_p"),
            seed=seed, context=context, stops=ctypes.cast(texts, c_void_p), stop_count=len(ends),
            is_greedy=temperature == 0, ignores_ends=_library.truth(ignores_ends, "ignores_ends"), max_memory=max_memory,
            typical_p=typical_p, repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty, penalty_window=_given(penalty_window, 2 ** 64 - 1, _library.whole, "penalty_window"),
            no_repeat_ngram=no_repeat_ngram, bias_ids=address(bias_ids), biases=address(biases), bias_count=len(bias),
            grammar=_library.text_or_none(grammar, "grammar") or None,
            json_schema=_library.text_or_none(schema, "json_schema") or None,
            preset=_library.text_or_none(preset, "preset"),
            samplers=None if samplers is None else _library.text(
                samplers if isinstance(samplers, str) else ";".join(map(str, _library.listed(samplers, "samplers"))),
                "samplers"),
            dry_sequence_breakers=None if breaking_texts is None else ctypes.addressof(breaking_texts),
            dry_sequence_breaker_count=len(breaking),
            top_n_sigma=_given(top_n_sigma, -1.0, _library.real, "top_n_sigma"),
            dry_penalty_last_n=_number(dry_penalty_last_n, _integer, "dry_penalty_last_n", -1),
            **{name: _number(value, _library.real, name) for name, value in reals.items()},
            **{name: _number(value, _integer, name) for name, value in wholes.items()})
        encoded = _library.text(prompt, "prompt")

        def generate(give: Callable[[Any], bool]) -> None:
            function = _library.TextFunction(lambda _, text: int(not give(text)))
            lib.model_generate(self._handle, encoded, ctypes.byref(options), function, None)

        _threads.run(generate, lambda text: None if on_text is None else on_text(text.decode()))
        return json.loads(_library.read_text(lib.model_result, self._handle))
