// SPDX-License-Identifier: Apache-2.0

#include "cli/output.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include <sys/stat.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

std::string shown(const NamedFile& file) { return file.role + " " + file.path; }

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  if (stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0)
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  std::error_code unknown;
  const fs::path one = fs::weakly_canonical(a, unknown), other = fs::weakly_canonical(b, unknown);
  return !one.empty() && one == other;
}

const char* kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a directory";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    default:
      return "not a regular file";
  }
}

/// The file that has the name already, looked at without following it: a rename would put a file in its place.
Status check_replaced(const NamedFile& output) {
  struct stat there {};
  if (lstat(output.path.c_str(), &there) != 0) return {};
  if (S_ISLNK(there.st_mode)) {
    std::error_code unknown;
    return fail(Errc::storage, shown(output) + ": is a symbolic link to " +
                                   fs::read_symlink(output.path, unknown).string() +
                                   ", which would be replaced; name the file itself");
  }
  if (!S_ISREG(there.st_mode))
    return fail(Errc::storage, shown(output) + ": is " + kind_of(there.st_mode) + "; give another name");
  if (access(output.path.c_str(), W_OK) != 0)
    return fail(Errc::storage,
                shown(output) + ": is there and may not be written (" + std::strerror(errno) + "); give another name");
  // In a sticky directory only owners may put another file in a file's place.
  struct stat folder {};
  const uid_t self = geteuid();
  if (self != 0 && stat(storage::parent_path(output.path).c_str(), &folder) == 0 && (folder.st_mode & S_ISVTX) &&
      there.st_uid != self && folder.st_uid != self)
    return fail(Errc::storage, shown(output) + ": belongs to another user in a sticky directory; give another name");
  return {};
}

std::string first_line(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string line(512, '\0');
  in.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return line.substr(0, line.find('\n'));
}

}  // namespace

Status check_distinct(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const NamedFile& input : inputs)
      if (is_same_file(outputs[i].path, input.path))
        return fail(Errc::invalid_argument, shown(outputs[i]) + ": is the file that is read, " + shown(input) +
                                                ", which is left alone; give another name");
    for (std::size_t j = 0; j < i; ++j)
      if (is_same_file(outputs[i].path, outputs[j].path))
        return fail(Errc::invalid_argument,
                    shown(outputs[i]) + ": is " + shown(outputs[j]) + " too; give another name");
  }
  return {};
}

Status check_output(const NamedFile& output, std::span<const NamedFile> inputs) {
  WEFT_CHECK(check_distinct({&output, 1}, inputs));
  const std::string folder = storage::parent_path(output.path);
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown))
    return fail(Errc::storage, shown(output) + ": there is no directory " + folder);
  WEFT_CHECK(check_replaced(output));
  // A place that takes no files, as /proc, says that they are not there.
  if (Status taken = storage::prove_writable(storage::real_file_system(), output.path); !taken)
    return fail(Errc::storage, shown(output) + ": " + taken.error().text());
  return {};
}

Status check_output(const std::string& flag, const std::string& path, const std::string& input) {
  const NamedFile read{"FILE", input};
  return check_output({flag, path}, {&read, 1});
}

Status check_log(const NamedFile& log, std::span<const NamedFile> inputs) {
  WEFT_CHECK(check_distinct({&log, 1}, inputs));
  struct stat there {};
  if (stat(log.path.c_str(), &there) != 0 || S_ISCHR(there.st_mode) || S_ISFIFO(there.st_mode)) return {};
  if (!S_ISREG(there.st_mode))
    return fail(Errc::storage, shown(log) + ": is " + kind_of(there.st_mode) + "; give another name");
  const std::string begin = there.st_size > 0 ? first_line(log.path) : "weft";
  if (begin.empty() || begin.find("weft") != std::string::npos) return {};
  return fail(Errc::storage, shown(log) + ": holds something else than a log of Weft's, it begins with \"" +
                                 begin.substr(0, 40) + "\"; give another name");
}

Status check_socket(const std::string& path) {
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0 || S_ISSOCK(there.st_mode)) return {};
  return fail(Errc::storage, "--socket " + path + ": what is there is no socket; give another name");
}

}  // namespace weft::cli
