// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <string>
#include <string_view>

namespace weft::server::internal {

/// A file that takes the body of one request after another; what nobody takes away is removed.
/// @thread one at a time
class UploadFile {
 public:
  UploadFile() = default;
  UploadFile(const UploadFile&) = delete;
  UploadFile& operator=(const UploadFile&) = delete;
  ~UploadFile() { drop(); }

  bool is_open() const noexcept { return file_ >= 0; }
  /// @error storage: no directory for uploads, or no file can be made there
  Status make(const std::string& directory);
  /// @error storage
  Status take(std::string_view part);
  /// Closes the file; who asks removes it.
  std::string release() noexcept;
  void drop() noexcept;

 private:
  int file_ = -1;
  std::string path_;
};

}  // namespace weft::server::internal
