// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include <sys/types.h>

#include <cstddef>
#include <memory>

namespace weft::storage {

/// The calls that may stop half-way, by signals or a lack of space; tests put others in their place.
struct SystemCalls {
  int (*open)(const char* path, int flags, mode_t mode);
  ssize_t (*read)(int fd, void* bytes, std::size_t size);
  ssize_t (*write)(int fd, const void* bytes, std::size_t size);
  int (*fsync)(int fd);
  int (*close)(int fd);
};
const SystemCalls& real_system_calls() noexcept;

/// POSIX files over these calls; `real_file_system` is one over the real ones. `calls` must outlive it.
std::unique_ptr<FileSystem> make_posix_file_system(const SystemCalls& calls);

}  // namespace weft::storage
