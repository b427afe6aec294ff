// SPDX-License-Identifier: Apache-2.0

#include "tests/support/source_path.hpp"

namespace weft {

std::string source_path(const std::string& name) { return WEFT_SOURCE_DIR "/" + name; }

}  // namespace weft
