// SPDX-License-Identifier: Apache-2.0

#include "server/internal/upload_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weft::server::internal {

Status UploadFile::make(const std::string& directory) {
  drop();
  if (directory.empty()) return fail(Errc::storage, "upload: no file can be made: there is no directory for uploads");
  std::string path = directory + "/.upload-XXXXXX";
  file_ = mkostemp(path.data(), O_CLOEXEC);
  if (file_ < 0) return fail(Errc::storage, std::string("upload: no file can be made: ") + std::strerror(errno));
  path_ = std::move(path);
  return {};
}

Status UploadFile::take(std::string_view part) {
  while (!part.empty()) {
    const ssize_t count = ::write(file_, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Errc::storage, std::string("upload: cannot be written: ") + std::strerror(errno));
    part.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

std::string UploadFile::release() noexcept {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  return std::exchange(path_, {});
}

void UploadFile::drop() noexcept {
  const std::string path = release();
  if (!path.empty()) unlink(path.c_str());
}

}  // namespace weft::server::internal
