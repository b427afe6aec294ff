// SPDX-License-Identifier: Apache-2.0

#include "cli/output.hpp"

#include "storage/file_system.hpp"

#include <filesystem>
#include <system_error>

namespace weft::cli {

Status check_output(const std::string& flag, const std::string& path) {
  const std::string folder = storage::parent_path(path);
  std::error_code unknown;  // what cannot be looked at now, writing will say
  if (!std::filesystem::is_directory(folder, unknown))
    return fail(Errc::not_found, flag + " " + path + ": there is no directory " + folder);
  const auto there = std::filesystem::status(path, unknown);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    return fail(Errc::storage, flag + " " + path + ": what stands there is not a regular file; give another name");
  return {};
}

Status check_output(const std::string& flag, const std::string& path, const std::string& input) {
  WEFT_CHECK(check_output(flag, path));
  std::error_code unknown;
  if (std::filesystem::equivalent(path, input, unknown))
    return fail(Errc::invalid_argument, flag + " " + path + ": is the file that is read, " + input +
                                            ", which is left alone; give another name");
  return {};
}

CLI::Option* names_a_file(CLI::Option* option) {
  return option->check([](const std::string& given) { return given.empty() ? "names no file" : std::string(); });
}

}  // namespace weft::cli
