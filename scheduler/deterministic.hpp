// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"
#include "scheduler/order.hpp"

#include "core/philox.hpp"

#include <optional>
#include <vector>

namespace weft::scheduler {

/// The executor of tests: single-threaded, its order a function of the seed, and steppable event by event. It chooses
/// which half of which region's step comes next and, inside one, the order of what the program leaves open: which
/// cell's messages are delivered first, which cell fires first.
class DeterministicExecutor final : public Executor {
 public:
  /// One call into the program.
  struct Event {
    std::uint32_t region = 0;
    std::uint64_t step = 0;
    bool boundary = false;
    bool operator==(const Event&) const = default;
  };

  /// @param team  how many threads it plays for programs that want a team
  explicit DeterministicExecutor(std::uint64_t seed = 0, ThreadHooks hooks = {}, std::size_t team = 1);

  /// Takes every choice from `order` in place of the seed, until it is called again; null: from the seed. It outlives
  /// the runs.
  void follow(Order* order) noexcept { followed_ = order; }

  std::uint64_t run(TickProgram& program, std::uint64_t n) noexcept override;
  std::size_t concurrency() const noexcept override { return 1; }
  std::string_view name() const noexcept override { return "deterministic"; }

  /// Opens a run that `next` then works off, one event a call.
  void begin(TickProgram& program, std::uint64_t n);
  /// Does one event of the open run and tells which; nothing when the run is over.
  std::optional<Event> next() noexcept;
  /// Steps that every region has finished.
  std::uint64_t steps_done() const noexcept;

 private:
  struct Region {
    std::uint64_t progress = 0;
    bool interior_done = false;
  };
  class DrawnOrder final : public Order {
   public:
    explicit DrawnOrder(std::uint64_t seed) : random_(seed, 0, RandomPurpose::test) {}
    std::size_t pick(std::size_t count) noexcept override {
      return random_.next_below(static_cast<std::uint32_t>(count));
    }

   private:
    RandomStream random_;
  };
  /// All tasks on the calling thread: seed 0 ascending, else from a drawn one on, upwards or downwards.
  class LoneTeam final : public Team {
   public:
    LoneTeam(std::uint64_t seed, std::size_t size) : seed_(seed), size_(size), random_(seed, 1, RandomPurpose::test) {}
    std::size_t size() const noexcept override { return size_; }
    void operator()(std::size_t count, Body body, void* context) noexcept override;

   private:
    std::uint64_t seed_;
    std::size_t size_;
    RandomStream random_;
  };
  /// Null: regions come in ascending order.
  Order* order() noexcept { return followed_ ? followed_ : seed_ != 0 ? &drawn_ : nullptr; }
  bool is_ready(std::size_t region) const noexcept;
  std::size_t pick() noexcept;
  bool open_block() noexcept;

  std::uint64_t seed_;
  ThreadHooks hooks_;
  DrawnOrder drawn_;
  Order* followed_ = nullptr;
  LoneTeam team_;
  TickProgram* program_ = nullptr;
  std::uint64_t n_ = 0, limit_ = 0;
  std::vector<Region> regions_;
  std::vector<std::uint32_t> ready_;
};

}  // namespace weft::scheduler
