// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/fwd.hpp"

#include "core/result.hpp"

#include <string>
#include <vector>

namespace weft::models {

/// Looks at the file in whose place one of a model comes. An .entity file, a GGUF file, an ONNX graph and an empty file
/// may be replaced, any other only where `is_forced`. A note says what is replaced; where nothing is there, none.
/// @error storage: a file of another kind, which stays; one that cannot be read
Status check_replaced_file(storage::FileSystem& files, const std::string& path, bool is_forced,
                           std::vector<std::string>& notes);

}  // namespace weft::models
