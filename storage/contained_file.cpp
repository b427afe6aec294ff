// SPDX-License-Identifier: Apache-2.0

#include "storage/contained_file.hpp"

#include "core/printable.hpp"

#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::storage {
namespace {

class Held {
 public:
  explicit Held(int descriptor) : descriptor_(descriptor) {}
  Held(Held&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Held() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Failure refused(const std::string& location, const std::string& why) {
  return fail(Errc::corrupt, "place " + in_quotes(location) + ": " + why);
}

Result<std::vector<std::string>> components_of(const std::string& location) {
  if (location.empty() || location.front() == '/')
    return refused(location, "expected a path relative to the file that names it");
  if (location.find_first_of(std::string_view("\\:\0", 3)) != location.npos)
    return refused(location, "has '\\', ':' or a zero byte");
  std::vector<std::string> components;
  for (std::size_t at = 0; at <= location.size();) {
    const std::size_t end = std::min(location.find('/', at), location.size());
    components.push_back(location.substr(at, end - at));
    if (components.back().empty() || components.back() == "." || components.back() == "..")
      return refused(location, "has the component " + in_quotes(components.back()));
    at = end + 1;
  }
  return components;
}

Result<Held> open_inside(int directory, const std::string& name, int flags, const std::string& location) {
  // Not blocking: of a pipe nobody may be at the other end.
  int found = -1;
  do found = ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags);
  while (found < 0 && errno == EINTR);
  if (found >= 0) return Held(found);
  if (errno == ELOOP || errno == ENOTDIR) return refused(location, "leads over a symbolic link, or through a file");
  return fail(errno == ENOENT ? Errc::not_found : Errc::storage,
              "place " + in_quotes(location) + ": cannot open: " + std::generic_category().message(errno));
}

Result<ByteBuffer> read_all(int descriptor, std::size_t size, const std::string& location) {
  ByteBuffer bytes(size);
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::pread(descriptor, bytes.data() + at, size - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return fail(Errc::storage, "place " + in_quotes(location) + ": cannot be read at byte " + std::to_string(at));
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace

Status check_location(const std::string& location) {
  const auto components = components_of(location);
  return components ? Status() : fail(components.error());
}

Result<MappedFile> map_contained(const std::string& directory, const std::string& location, std::size_t max_bytes) {
  WEFT_TRY(const std::vector<std::string> components, components_of(location));
  // The folder itself is the caller's: it may be a link.
  Held at(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) return fail(Errc::storage, directory + ": cannot open: " + std::generic_category().message(errno));
  for (std::size_t i = 0; i < components.size(); ++i) {
    const bool is_last = i + 1 == components.size();
    WEFT_TRY(at, open_inside(at.get(), components[i], is_last ? 0 : O_DIRECTORY, location));
  }
  struct stat status {};
  if (::fstat(at.get(), &status) != 0)
    return fail(Errc::storage, "place " + in_quotes(location) + ": " + std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode)) return refused(location, "is no regular file");
  if (status.st_nlink != 1)
    return refused(location, "has " + std::to_string(status.st_nlink) + " names (hard links), expected one");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > max_bytes)
    return fail(Errc::too_large, "place " + in_quotes(location) + ": " + std::to_string(size) + " bytes, at most " +
                                     std::to_string(max_bytes));
  std::string path = directory + "/" + location;
  if (auto mapped = MappedFile::map(at.get(), size, path)) return *std::move(mapped);
  WEFT_TRY(ByteBuffer bytes, read_all(at.get(), size, location));
  return MappedFile(std::move(bytes), std::move(path));
}

}  // namespace weft::storage
