// SPDX-License-Identifier: Apache-2.0

#include "storage/memory_files.hpp"

#include "core/printable.hpp"

#include <sys/mman.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace weft::storage {
namespace {

std::string place_of(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

Failure cannot_keep(const std::string& what) {
  return fail(Errc::storage, "files in memory: " + what + ": " + std::generic_category().message(errno));
}

bool is_file_name(const std::string& name) {
  return !name.empty() && name.size() <= MemoryFiles::kLongestName && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

}  // namespace

Result<MemoryFiles> MemoryFiles::make(std::span<const Named> files) {
  if (files.empty() || files.size() > kMost)
    return fail(Errc::invalid_argument, "files in memory: " + std::to_string(files.size()) +
                                            " are given, expected 1 to " + std::to_string(kMost));
  MemoryFiles made;
  for (const Named& each : files) WEFT_CHECK(made.add(each));
  if (files.size() == 1)
    made.path_ = place_of(made.descriptors_[0]);
  else
    WEFT_CHECK(made.link_all());
  return made;
}

Status MemoryFiles::add(const Named& file) {
  if (!is_file_name(file.name))
    return fail(Errc::invalid_argument, "files in memory: " + in_quotes(file.name) + " is no name of a file");
  if (std::find(names_.begin(), names_.end(), file.name) != names_.end())
    return fail(Errc::duplicate_name, "files in memory: " + in_quotes(file.name) + " is there twice");
#ifdef __linux__
  const int descriptor = ::memfd_create("weft", MFD_CLOEXEC);
  if (descriptor < 0) return cannot_keep(file.name);
  descriptors_.push_back(descriptor);
  names_.push_back(file.name);
  for (ByteSpan rest = file.bytes; !rest.empty();) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return cannot_keep(file.name);
    rest = rest.subspan(static_cast<std::size_t>(written));
  }
  return {};
#else
  return fail(Errc::unsupported, "files in memory: this system has none; give a path");
#endif
}

Status MemoryFiles::link_all() {
  std::error_code failed;
  std::string folder = (std::filesystem::temp_directory_path(failed) / "weft-XXXXXX").string();
  if (failed || !::mkdtemp(folder.data())) return cannot_keep("a folder for links to them");
  path_ = folder;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (::symlink(place_of(descriptors_[i]).c_str(), (path_ + "/" + names_[i]).c_str()) != 0)
      return cannot_keep(names_[i]);
  return {};
}

MemoryFiles::~MemoryFiles() {
  if (descriptors_.size() > 1 && !path_.empty()) {
    for (const std::string& name : names_) ::unlink((path_ + "/" + name).c_str());
    ::rmdir(path_.c_str());
  }
  for (const int descriptor : descriptors_) ::close(descriptor);
}

}  // namespace weft::storage
