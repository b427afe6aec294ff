// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include "core/result.hpp"

namespace weft::text {

/// Compares the ids that two tokenizers make of sample texts of several scripts and of texts of `a`'s own tokens.
/// @error unsupported: the first text of which they make other ids, and both
Status check_same_ids(const Tokenizer& a, const Tokenizer& b);

}  // namespace weft::text
