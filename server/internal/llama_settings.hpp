// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/text_engine.hpp"

#include "core/json.hpp"

namespace weft::server::internal {

/// Settings by which a text is drawn, as llama.cpp's server tells it.
Json llama_settings(const models::TextRequest& text);

}  // namespace weft::server::internal
