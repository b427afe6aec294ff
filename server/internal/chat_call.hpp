// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/chat_template.hpp"

#include "core/json_reader.hpp"
#include "core/result.hpp"

namespace weft::server::internal {

/// "messages", and what the model's template knows besides them (chat_template_kwargs).
/// @error parse_failed, unknown_name, not_found: what is no conversation; unsupported: pictures, sounds, calls of tools
Result<text::ChatInput> read_chat(JsonReader& body);

}  // namespace weft::server::internal
