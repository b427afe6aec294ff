// SPDX-License-Identifier: Apache-2.0

#include "agent/durable_watermark.hpp"

#include "core/state_hash.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace weft::agent {
namespace {

constexpr const char* kName = "/durable";
// Then it begins anew: only the last entry counts.
constexpr std::uint64_t kLargestFile = std::uint64_t{64} << 10;
constexpr std::size_t kMost = std::size_t{1} << 20;

/// 16 bytes, little-endian: a record's number, and the low half of XXH3-128 of those eight bytes.
struct Entry {
  std::uint64_t record = 0;
  std::uint64_t check = 0;
};

std::uint64_t check_of(std::uint64_t record) { return hash_bytes(&record, sizeof record).low; }

}  // namespace

DurableWatermark::DurableWatermark(storage::FileSystem& files, std::string directory)
    : files_(files), path_(std::move(directory) + kName) {}

void DurableWatermark::note(std::uint64_t record) {
  const Entry entry{record, check_of(record)};
  if (!file_ || bytes_ >= kLargestFile) {
    bytes_ = 0;
    auto opened = files_.open(path_, storage::OpenMode::create);
    file_ = opened ? *std::move(opened) : nullptr;
  }
  if (!file_) return;
  if (!file_->write(std::as_bytes(std::span(&entry, 1)))) file_.reset();
  bytes_ += sizeof entry;
}

std::optional<std::uint64_t> DurableWatermark::last(storage::FileSystem& files, const std::string& directory) {
  const auto bytes = files.read(directory + kName, kMost);
  if (!bytes) return std::nullopt;
  std::optional<std::uint64_t> last;
  for (std::size_t at = 0; at + sizeof(Entry) <= bytes->size(); at += sizeof(Entry)) {
    Entry entry;
    std::memcpy(&entry, bytes->data() + at, sizeof entry);
    if (entry.check == check_of(entry.record)) last = std::max(last.value_or(0), entry.record);
  }
  return last;
}

}  // namespace weft::agent
