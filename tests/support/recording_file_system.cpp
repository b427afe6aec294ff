// SPDX-License-Identifier: Apache-2.0

#include "tests/support/recording_file_system.hpp"

#include <set>

namespace weft::storage {

std::string to_string(const RecordedCall& call) {
  std::string text(name(call.operation));
  if (call.file != 0) text += " #" + std::to_string(call.file);
  text += " " + call.path;
  if (!call.to.empty()) text += " " + call.to;
  if (call.operation == FileOperation::write || call.operation == FileOperation::read)
    text += " " + std::to_string(call.size);
  if (!call.error.empty()) text += ": " + call.error;
  return text;
}

std::vector<RecordedCall> RecordingFileSystem::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

void RecordingFileSystem::clear() {
  const std::lock_guard lock(mutex_);
  calls_.clear();
}

std::string RecordingFileSystem::use_after_failure() const {
  std::set<std::uint64_t> failed;
  for (const RecordedCall& call : calls()) {
    if (failed.contains(call.file)) return to_string(call);
    const bool is_file = call.operation == FileOperation::write || call.operation == FileOperation::sync;
    if (is_file && !call.error.empty()) failed.insert(call.file);
  }
  return {};
}

Status RecordingFileSystem::pass(FileCall& call, const std::function<Status()>& down) {
  const Status status = down();
  RecordedCall record{call.operation, call.path, call.to, call.file, 0, {}};
  record.size = call.received ? call.received->size() : call.bytes.size();
  if (!status) record.error = status.error().text();
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(record));
  return status;
}

}  // namespace weft::storage
