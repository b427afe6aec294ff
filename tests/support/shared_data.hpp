// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/support/source_path.hpp"
#include <filesystem>
#include <string>

namespace weft {

/// The path of a file among the data sets that lie beside a checkout (../shared/data) and are not part of it, or "".
/// A test that needs one skips without it: `if (path.empty()) GTEST_SKIP() << "no ../shared/data";`
inline std::string shared_data(const std::string& name) {
  const std::string path = source_path("../shared/data/" + name);
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : std::string();
}

}  // namespace weft
