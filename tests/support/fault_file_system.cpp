// SPDX-License-Identifier: Apache-2.0

#include "tests/support/fault_file_system.hpp"

#include <cstring>

namespace weft::storage {
namespace {

using enum FaultKind;

Failure injected(const FileCall& call, FaultKind kind) {
  static constexpr std::string_view kReasons[] = {"No space left on device",
                                                  "Input/output error",
                                                  "Interrupted system call",
                                                  "Short write",
                                                  "Short read",
                                                  "Wrong bit",
                                                  "Input/output error",
                                                  "The process is gone"};
  return fail(Errc::storage, call.path + ": cannot " + std::string(name(call.operation)) + ": " +
                                 std::string(kReasons[static_cast<std::size_t>(kind)]) + " (injected)");
}

bool applies(FaultKind kind, const FileCall& call) {
  switch (kind) {
    case short_write:
      return call.operation == FileOperation::write;
    case wrong_bit:
      return call.operation == FileOperation::write && !call.bytes.empty();
    case short_read:
      return call.operation == FileOperation::read;
    default:
      return true;
  }
}

void halve(ByteBuffer& bytes) {
  ByteBuffer half(bytes.size() / 2);
  if (!half.empty()) std::memcpy(half.data(), bytes.data(), half.size());
  bytes = std::move(half);
}

}  // namespace

void FaultFileSystem::set(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  calls_ = struck_ = 0;
}

void FaultFileSystem::clear() {
  const std::lock_guard lock(mutex_);
  fault_.reset();
}

std::uint64_t FaultFileSystem::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::uint64_t FaultFileSystem::struck() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

std::optional<FaultFileSystem::Strike> FaultFileSystem::next_strike(const FileCall& call) {
  const std::lock_guard lock(mutex_);
  const bool is_counted = !fault_ || !fault_->only || *fault_->only == call.operation;
  if (is_counted) ++calls_;
  if (!fault_) return std::nullopt;
  if (fault_->kind == crash && struck_ != 0) return Strike{crash, true};
  const bool is_meant = is_counted && calls_ >= fault_->first && (calls_ <= fault_->last || fault_->kind == crash);
  if (!is_meant || !applies(fault_->kind, call)) return std::nullopt;
  ++struck_;
  return Strike{fault_->kind, false};
}

Status FaultFileSystem::pass(FileCall& call, const std::function<Status()>& down) {
  const std::optional<Strike> strike = next_strike(call);
  if (!strike) return down();
  const FaultKind kind = strike->kind;
  switch (kind) {
    case short_read:
      WEFT_CHECK(down());
      halve(*call.received);
      return {};
    case wrong_bit: {
      ByteBuffer wrong(call.bytes.size());
      std::memcpy(wrong.data(), call.bytes.data(), wrong.size());
      wrong[wrong.size() / 2] ^= std::byte{4};
      call.bytes = wrong;
      return down();
    }
    case late_error:
      WEFT_CHECK(down());
      return injected(call, kind);
    default:
      break;
  }
  if (strike->is_after_crash) return injected(call, kind);
  if (call.operation == FileOperation::write) {
    call.bytes = call.bytes.first(call.bytes.size() / 2);
    WEFT_CHECK(down());
  }
  const bool is_sync = call.operation == FileOperation::sync || call.operation == FileOperation::sync_directory;
  if (is_sync && kind != crash && on_failed_sync_) on_failed_sync_(call.path);
  return injected(call, kind);
}

}  // namespace weft::storage
