// SPDX-License-Identifier: Apache-2.0

#include "mesh/memory/batch_copy.hpp"

#include "scheduler/tick_program.hpp"

#include "core/cache_line.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace weft::mesh {

/// The copies as a program of one step, in blocks of equal size, taken by any thread.
class BatchCopy::Shared final : public scheduler::TickProgram {
 public:
  explicit Shared(const BatchCopy& list) : list_(list) {}
  std::size_t region_count() const noexcept override { return 1; }
  std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {
    const std::size_t blocks = (list_.bytes_ + kBlock - 1) / kBlock;
    if (team_)
      (*team_)(
          blocks, [](void* self, std::size_t index) { static_cast<Shared*>(self)->copy(index); }, this);
    else
      for (std::size_t i = 0; i < blocks; ++i) copy(i);
  }
  void run_boundary(std::size_t, std::uint64_t) noexcept override {}
  bool wants_team() const noexcept override { return true; }
  void use_team(scheduler::Team* team) noexcept override { team_ = team; }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 18;

  void copy(std::size_t index) const noexcept {
    const std::size_t begin = index * kBlock, end = begin + kBlock;
    auto copy = std::upper_bound(list_.copies_.begin(), list_.copies_.end(), begin,
                                 [](std::size_t at, const Copy& each) { return at < each.at; }) -
                1;
    for (; copy != list_.copies_.end() && copy->at < end; ++copy) {
      const std::size_t from = std::max(begin, copy->at) - copy->at, to = std::min(end - copy->at, copy->size);
      std::memcpy(copy->to + from, copy->from + from, to - from);
    }
  }

  const BatchCopy& list_;
  scheduler::Team* team_ = nullptr;
};

void BatchCopy::clear() noexcept {
  copies_.clear();
  bytes_ = 0;
}

void BatchCopy::add(void* to, const void* from, std::size_t size) {
  if (size == 0) return;
  if (!copies_.empty()) {
    Copy& last = copies_.back();
    const std::size_t whole = cache_lines(last.size);
    if (to == last.to + whole && from == last.from + whole) {
      bytes_ += whole + size - last.size;
      last.size = whole + size;
      return;
    }
  }
  copies_.push_back({static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size, bytes_});
  bytes_ += size;
}

void BatchCopy::make(scheduler::Executor& executor) const noexcept {
  if (bytes_ < kShared || executor.concurrency() == 1) {
    for (const Copy& each : copies_) std::memcpy(each.to, each.from, each.size);
    return;
  }
  Shared shared(*this);
  executor.run(shared, 1);
}

}  // namespace weft::mesh
