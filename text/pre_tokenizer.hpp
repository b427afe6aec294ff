// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// A part of a text on its way to a model.
struct Fragment {
  std::string text;
  bool is_first = false;  ///< begins where the whole text does
};

/// A step that splits fragments: a value of tokenizer.json's "pre_tokenizer".
/// @thread any: immutable
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Appends the fragments of one; none is empty. @error too_large: as Expression
  virtual Status split(Fragment fragment, std::vector<Fragment>& fragments) const = 0;
};

/// Null for null. @error unsupported: a type that is not known, naming it; parse_failed: another key or kind of value
Result<std::shared_ptr<const PreTokenizer>> make_pre_tokenizer(const Json& json, const std::string& path);

}  // namespace weft::text
