// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/text_engine.hpp"

#include "core/json.hpp"

namespace weft::server::internal {

/// Settings of a text's sampling, as llama.cpp's server reports them.
Json llama_settings(const models::TextRequest& text);

}  // namespace weft::server::internal
