// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/archive.hpp"

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace weft::learning {

/// Fields as 32-bit words, one after the other.
class WordArchive final : public OutArchive {
 public:
  WordArchive(std::vector<std::uint32_t>& to, Scopes scopes) noexcept : OutArchive(scopes), to_(to) {}

 protected:
  void put(const Field&, Element, std::span<const std::byte> bytes) override {
    const std::size_t size = to_.size();
    to_.resize(size + bytes.size() / sizeof(std::uint32_t));
    if (!bytes.empty()) std::memcpy(to_.data() + size, bytes.data(), bytes.size());
  }

 private:
  std::vector<std::uint32_t>& to_;
};

/// Reads what a WordArchive of the same scopes wrote, or fails.
class InWordArchive final : public InArchive {
 public:
  InWordArchive(std::span<const std::uint32_t> from, Scopes scopes) noexcept
      : InArchive(scopes), left_(std::as_bytes(from)) {}
  /// True when all words were read.
  bool is_done() const noexcept { return !has_failed() && left_.empty(); }

 protected:
  bool get(const Field& field, Element, std::span<std::byte> to) override {
    if (to.size() > left_.size()) {
      fail(field);
      return false;
    }
    if (!to.empty()) std::memcpy(to.data(), left_.data(), to.size());
    left_ = left_.subspan(to.size());
    return true;
  }
  std::uint64_t left() const noexcept override { return left_.size(); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace weft::learning
