// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/durable.hpp"
#include "storage/fwd.hpp"

#include "core/result.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models::internal {

/// Makes a folder for what other programs read, where it is not there: its mode is the umask's, while
/// FileSystem::make_directory makes private ones. @error storage
Status make_shared_folder(const std::string& path);

/// Files of a model at a place where an earlier one may be.
struct WrittenModel {
  storage::FileSet set;           // without `stale`
  std::vector<std::string> read;  // files that must stay
  /// True of the names that a model at this place has: what is there of them and is not made now is removed.
  std::function<bool(std::string_view)> is_model_file;
};
/// Writes them by storage::replace_files_durably. A note says which older files were removed.
/// @error invalid_argument: a file that is read would be replaced or removed, told before anything is written; storage
Status write_model(storage::FileSystem& files, WrittenModel model, std::vector<std::string>& notes);

}  // namespace weft::models::internal
