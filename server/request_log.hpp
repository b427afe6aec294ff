// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/text_record.hpp"
#include "server/served_model.hpp"

#include "storage/file_system.hpp"

#include "core/result.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace weft::server {

/// A file to which each text that was written whole is appended, with its request (models/text_record.hpp), for
/// `weft replay`. Prompts and answers stand in it as tokens: one that is new is for its owner alone. Lines are not
/// synced. One that cannot be written is told of in the log and counted, and the request is answered all the same.
/// @thread any
class RequestLog : public std::enable_shared_from_this<RequestLog> {
 public:
  /// Appends to a file, or makes it. @error as FileSystem::open
  static Result<std::shared_ptr<RequestLog>> open(std::string path, std::string version);

  /// The receiver of a job whose texts are written down as they end; `texts` get what that needs.
  std::shared_ptr<TextReceiver> record(std::shared_ptr<TextReceiver> receiver, std::vector<models::TextRequest>& texts,
                                       const ModelDescription& model);
  /// Opens the file by its name again: someone has renamed the one that was open.
  void reopen();
  /// Lines that were written, and that could not be.
  std::uint64_t lines() const noexcept { return lines_.load(std::memory_order_relaxed); }
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }

 private:
  friend class RecordedAnswer;
  RequestLog(std::string path, std::string version) : path_(std::move(path)), version_(std::move(version)) {}
  Status open_file();
  void write(models::TextRecord record);

  const std::string path_, version_;
  std::mutex mutex_;  // of the file
  std::unique_ptr<storage::File> file_;
  std::atomic<std::uint64_t> lines_{0}, failures_{0};
};

}  // namespace weft::server
