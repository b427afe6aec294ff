// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <string>

namespace weft::text {

/// Options that the pre-tokenizer and the decoder of that name share.
struct Metaspace {
  enum class Scheme { always, first, never };
  std::string replacement = "\u2581";
  Scheme scheme = Scheme::always;

  static Result<Metaspace> read(JsonReader& reader);
};

}  // namespace weft::text
