// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/graph_capture.hpp"

#include "gpu/internal/condition.hpp"

#include <algorithm>
#include <cstring>

namespace weft::gpu {
namespace {
constexpr std::size_t kLeast = std::size_t{64} << 10, kMost = std::size_t{32} << 20;
}

void GraphCapture::add(const Kernel& kernel, const Groups& groups, std::span<const std::byte> operands,
                       const Accesses& accesses) {
  const Range condition = condition_range(kernel.condition);
  const std::uint32_t level = levels_.place(accesses.reads, accesses.writes, accesses.flags, condition);
  dispatches_.push_back({level, number_of(kernel), static_cast<std::uint32_t>(groups.x),
                         static_cast<std::uint32_t>(groups.y), groups.shares,
                         static_cast<std::uint32_t>(operands.size()), groups.pushes, operands_.size()});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  if (!unread_.empty()) accessed_.emplace_back().add(accesses), accessed_.back().reads.push_back(condition);
}

void GraphCapture::AccessedMemory::add(const Accesses& accesses) {
  reads.insert(reads.end(), accesses.reads.begin(), accesses.reads.end());
  writes.insert(writes.end(), accesses.writes.begin(), accesses.writes.end());
  has_flags = has_flags || accesses.flags.size() != 0;
}

bool GraphCapture::is_unread(const Range& range) const {
  const auto holds = [&](std::uint64_t begin, std::uint64_t end) { return range.begin >= begin && range.end <= end; };
  return std::any_of(unread_.begin(), unread_.end(), [&](const auto& each) { return holds(each.begin, each.end); }) ||
         std::any_of(memory_.begin(), memory_.end(),
                     [&](const Buffer& each) { return holds(each.address(), each.address() + each.bytes()); });
}

void GraphCapture::drop_unread() {
  if (accessed_.empty()) return;
  std::vector<Range> read;  // by those that stay, so far
  const auto is_read = [&](const Range& written) {
    return !is_unread(written) || std::any_of(read.begin(), read.end(), [&](const Range& each) {
      return each.begin < written.end && written.begin < each.end;
    });
  };
  std::vector<Dispatch> stay;
  for (std::size_t i = dispatches_.size(); i-- > 0;) {
    const AccessedMemory& own = accessed_[i];
    const bool is_wanted = own.has_flags || std::any_of(own.writes.begin(), own.writes.end(), [&](const Range& each) {
                             return each.begin < each.end && is_read(each);
                           });
    if (!is_wanted) continue;
    stay.push_back(dispatches_[i]);
    for (const Range& each : own.reads)
      if (each.begin < each.end && is_unread(each)) read.push_back(each);
  }
  dispatches_.assign(stay.rbegin(), stay.rend());
}

std::uint32_t GraphCapture::number_of(const Kernel& kernel) {
  const auto [number, is_new] = numbers_.try_emplace(kernel, static_cast<std::uint32_t>(kernels_.size()));
  if (is_new) kernels_.push_back(kernel);
  return number->second;
}

bool GraphCapture::flag_in_last(std::size_t place_of_word, std::size_t place_of_bits, const Range& word,
                                std::uint32_t bits) {
  const Dispatch& last = dispatches_.back();
  if (!levels_.flag(last.level, word)) return false;
  if (!accessed_.empty()) accessed_.back().has_flags = true;
  std::memcpy(operands_.data() + last.operands + place_of_word, &word.begin, sizeof word.begin);
  std::memcpy(operands_.data() + last.operands + place_of_bits, &bits, sizeof bits);
  return true;
}

Result<std::uint64_t> GraphCapture::scratch(std::size_t bytes) {
  // Vectors of 16 bytes are what shaders load at most.
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + 15) / 16 * 16;
  if (memory_.empty() || size > memory_.back().bytes() - used_) {
    const std::size_t grown = memory_.empty() ? kLeast : std::min(kMost, 2 * memory_.back().bytes());
    WEFT_TRY(Buffer buffer, heap_.allocate(std::max(size, grown), "scratch memory of a command graph"));
    memory_.push_back(std::move(buffer));
    used_ = 0;
  }
  const std::uint64_t at = memory_.back().address() + used_;
  used_ += size;
  return at;
}

Result<std::uint64_t> GraphCapture::parameters(std::span<const std::byte> data) {
  std::string key(reinterpret_cast<const char*>(data.data()), data.size());
  const auto found = parameters_.find(key);
  if (found != parameters_.end()) return found->second;
  WEFT_TRY(const std::uint64_t at, scratch(data.size()));
  parameters_.emplace(std::move(key), at);
  return at;
}

}  // namespace weft::gpu
