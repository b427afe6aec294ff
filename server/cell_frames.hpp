// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"

#include "core/coord.hpp"
#include "core/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace weft::server {

/// Grid places of a mesh's cells. They never change.
struct CellPlaces {
  GridShape grid;                     ///< with one layer
  std::vector<std::uint32_t> places;  ///< by cell: its index in `grid`
  bool is_full = false;               ///< a cell at each place, in their order
};

/// Outputs of all cells of one session at one tick, a number or two of each.
struct CellFrame {
  std::uint64_t tick = 0;
  std::size_t lane = 0;
  std::vector<float> activity;  ///< by cell: mean magnitude of the outputs of its last layer
  std::vector<float> value;     ///< by cell: the first of them
};

/// Takes the outputs of all cells of a mesh between its ticks, for those who look at it, at most every kApart: who asks
/// more often gets the last frame again. While the mesh works as fast as it can, taking them costs it at most one part
/// in kShare of its time. One that ticks at a rate has time to spare before its next tick: they are taken in that. Of a
/// layer with more outputs than `values_each` only the first ones count.
/// @thread one at a time, the mesh's own
class CellFrames {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kApart{90};  // less than the 100 ms of who asks ten times a second
  static constexpr int kShare = 1000;
  static constexpr std::uint64_t kStepped = 4;  ///< ticks from frame to frame of a mesh that is stepped by hand

  explicit CellFrames(const mesh::Mesh& mesh);

  std::shared_ptr<const CellPlaces> places() const noexcept { return places_; }
  /// The frame of a session by its lane. `spare`: time until the next tick of a mesh that ticks by itself, zero of one
  /// that does so as fast as it can; none: it does not.
  /// @error full: frames of another session were taken just now, and it is too early for this one's
  Result<std::shared_ptr<const CellFrame>> take(const mesh::Mesh& mesh, std::size_t lane,
                                                std::optional<Clock::duration> spare);
  /// Held by who reads facts of the mesh beside its thread: it is not moved meanwhile. @thread any
  std::shared_mutex& place() noexcept { return place_; }
  /// Outputs of a layer that count.
  std::size_t values_each() const noexcept { return values_each_; }

 private:
  /// Outputs of cells that follow one another and stand evenly apart in memory.
  struct Run {
    const float* base = nullptr;       // of the first cell, session 0, slot 0
    std::ptrdiff_t slot = 0;           // floats from one tick to the next
    std::ptrdiff_t step = 0;           // floats from one cell to the next
    std::uint64_t mask = 1;            // ticks kept, less one
    std::size_t first = 0, count = 1;  // cells
    std::size_t width = 0, stride = 0;
  };
  /// Frames that nobody holds any more: their memory is used again.
  class Spare;

  std::shared_ptr<CellFrame> make_frame();
  bool joins(const Run& next);
  void find_runs(const mesh::Mesh& mesh);
  void read(const mesh::Mesh& mesh, CellFrame& to);

  std::shared_ptr<const CellPlaces> places_;
  std::shared_mutex place_;
  std::size_t values_each_ = 0;
  std::uint64_t state_id_ = 0;  // of the state that the runs point into
  std::vector<Run> runs_;
  std::shared_ptr<Spare> spare_;
  std::shared_ptr<const CellFrame> last_;
  Clock::time_point taken_{};
  Clock::duration cost_{}, wall_{};  // of the last frame: processor time, and all
};

}  // namespace weft::server
