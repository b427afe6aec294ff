// SPDX-License-Identifier: Apache-2.0

#include "models/internal/written_model.hpp"

#include "storage/file_system.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::models::internal {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Status make_shared_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directory(path, failed);
  if (!failed) return {};
  return fail(Errc::storage, path + ": cannot make the directory: " + failed.message());
}

Status write_model(storage::FileSystem& files, WrittenModel model, std::vector<std::string>& notes) {
  storage::FileSet& set = model.set;
  const std::string folder = storage::parent_path(set.made.back().path);
  std::string removed;
  WEFT_TRY(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names) {
    const bool is_made =
        std::any_of(set.made.begin(), set.made.end(), [&](const auto& file) { return file_name(file.path) == name; });
    if (is_made || !model.is_model_file(name)) continue;
    set.stale.push_back(folder + "/" + name);
    removed += (removed.empty() ? "" : ", ") + name;
  }
  std::vector<std::string> touched = set.stale;
  for (const auto& file : set.made) touched.push_back(file.path);
  std::error_code unknown;
  for (const std::string& path : touched)
    for (const std::string& read : model.read)
      if (std::filesystem::equivalent(path, read, unknown))
        return fail(Errc::invalid_argument,
                    path + ": is the file that is read, " + read + ", which is left alone; give another place");
  WEFT_CHECK(storage::replace_files_durably(files, set));
  if (!removed.empty()) notes.push_back("removed, of an earlier model at this place: " + removed);
  return {};
}

}  // namespace weft::models::internal
