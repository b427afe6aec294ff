// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/family.hpp"

#include "core/json.hpp"

#include <string>
#include <vector>

namespace weft::models::internal {

/// A config.json as transformers 4 and 5 read it, tokens and the type of weights aside. Notes say what they read in
/// another way. @source transformers, `configuration_*.py` of the families and `modeling_rope_utils.py`
Json hugging_face_config(const Family& family, const Decoder& decoder, std::vector<std::string>& notes);

}  // namespace weft::models::internal
