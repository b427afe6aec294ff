// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/language_model.hpp"

#include "core/state_hash.hpp"

namespace weft::models {

/// Digests of all that a text hangs on besides its request: equal digests, equal texts.
struct ModelDigest {
  Hash128 weights;  ///< XXH3-128 over the weights as loaded, layer by layer
  Hash128 options;  ///< over network, vocabulary, chat template, and the tokens that end a text
  bool operator==(const ModelDigest&) const = default;
};
/// Reads all weights once. @exact the same on every machine
ModelDigest digest_of(const LanguageModel& model);

}  // namespace weft::models
