// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor_kind.hpp"
#include "scheduler/tick_program.hpp"

#include "topology/machine.hpp"

#include "core/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace weft::scheduler {

/// Hooks around each thread's part of a run (they set and restore the floating-point
/// mode). `enter` returns a word that `leave` of the same thread gets back. The calling thread is included.
struct ThreadHooks {
  std::uint64_t (*enter)(void* context) noexcept = nullptr;
  void (*leave)(void* context, std::uint64_t word) noexcept = nullptr;
  void* context = nullptr;
};

/// Runs tick programs.
/// @thread one thread at a time makes the workers work; a run called meanwhile (also from inside a program) is
///         done on its own thread alone
class Executor {
 public:
  virtual ~Executor();
  /// Runs steps [0, n) of every region; returns how many steps were done (n, or fewer when should_stop said so).
  /// All that the regions wrote is visible to the caller afterwards, and no thread touches the program any more.
  virtual std::uint64_t run(TickProgram& program, std::uint64_t n) noexcept = 0;
  /// Threads that may work at once, the caller included.
  virtual std::size_t concurrency() const noexcept = 0;
  /// One of kExecutorNames.
  virtual std::string_view name() const noexcept = 0;
  /// A run will come soon (within tens of microseconds): wakes what sleeps. A hint, never needed.
  virtual void prepare() noexcept {}
  /// No run will come soon: workers go to sleep at once instead of waiting for one. A hint, never needed.
  virtual void dismiss() noexcept {}
};

struct ExecutorOptions {
  ExecutorKind kind = ExecutorKind::automatic;
  std::size_t threads = 0;  ///< caller included; 0: all usable cores. topology::core_assignments says where they sit
  bool pin = true;          ///< keep workers on their cores
  /// Time that a thread waiting for a neighbour spins before it yields and then blocks.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  /// Time that a worker goes on spinning after a run.
  std::chrono::nanoseconds linger = std::chrono::microseconds(100);
  /// Runs expected (by the last ones) to be shorter than this do not wake sleeping workers: waking costs more.
  /// Programs whose steps are shorter than meeting a neighbour takes run on the caller alone. Zero: always share.
  std::chrono::nanoseconds alone_below = std::chrono::microseconds(20);
  /// True to give the regions of a core that other processes use to the other threads, for a while.
  bool avoid_taken_cores = true;
  ThreadHooks hooks{};
};

/// Pinned oneTBB workers, an arena a NUMA node, no barrier but at `block()`. `resident`: regions stay on their workers
/// and await each other's progress. `graph`: a tbb::flow::graph made once for the shape of a program, whose nodes
/// whoever is free runs; with more regions than threads, unequal work evens out. `automatic`: measures both while it
/// runs a program, and takes the faster.
/// @error invalid_argument above 4096 threads, or the kind is deterministic; unsupported when TBB cannot make arenas
Result<std::unique_ptr<Executor>> make_executor(const topology::Machine& machine, ExecutorOptions options);

/// One thread. Seed 0: regions in ascending order, step by step. Any other seed: of all region halves (interior,
/// boundary) that the neighbour rule allows next, one is drawn, to prove that order does not matter; tasks of a team,
/// said to be of `team` threads, come in drawn sequence too.
std::unique_ptr<Executor> make_deterministic_executor(std::uint64_t seed = 0, ThreadHooks hooks = {},
                                                      std::size_t team = 1);

}  // namespace weft::scheduler
