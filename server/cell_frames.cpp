// SPDX-License-Identifier: Apache-2.0

#include "server/cell_frames.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/state.hpp"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

namespace weft::server {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 18;  // of one frame
constexpr std::size_t kLeastValues = 16;                   // of one cell: a cache line

/// Time that the calling thread has had of a processor: time in which it was kept waiting is no cost of its work.
CellFrames::Clock::duration thread_time() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::duration_cast<CellFrames::Clock::duration>(std::chrono::seconds(now.tv_sec) +
                                                                 std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace

class CellFrames::Spare {
 public:
  static constexpr std::size_t kMost = 3;
  std::unique_ptr<CellFrame> take() {
    const std::lock_guard hold(mutex_);
    if (frames_.empty()) return std::make_unique<CellFrame>();
    auto frame = std::move(frames_.back());
    frames_.pop_back();
    return frame;
  }
  void give(std::unique_ptr<CellFrame> frame) {
    const std::lock_guard hold(mutex_);
    if (frames_.size() < kMost) frames_.push_back(std::move(frame));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<CellFrame>> frames_;
};

std::shared_ptr<CellFrame> CellFrames::make_frame() {
  return {spare_->take().release(),
          [spare = spare_](CellFrame* frame) { spare->give(std::unique_ptr<CellFrame>(frame)); }};
}

CellFrames::CellFrames(const mesh::Mesh& mesh) : spare_(std::make_shared<Spare>()) {
  auto made = std::make_shared<CellPlaces>();
  made->grid = mesh.spec().grid;
  made->grid.layers = 1;
  const auto cells = mesh::MeshAccess::cells(mesh);
  for (const auto& cell : cells)
    made->places.push_back(static_cast<std::uint32_t>(made->grid.index({cell->at().z, cell->at().y, cell->at().x, 0})));
  made->is_full = made->places.size() == std::size_t{made->grid.z} * made->grid.y * made->grid.x &&
                  std::is_sorted(made->places.begin(), made->places.end());
  values_each_ = std::max(kLeastValues, kMostValues / std::max<std::size_t>(cells.size(), 1));
  places_ = std::move(made);
}

Result<std::shared_ptr<const CellFrame>> CellFrames::take(const mesh::Mesh& mesh, std::size_t lane,
                                                          std::optional<Clock::duration> spare) {
  const bool is_other = !last_ || last_->lane != lane;
  const auto age = Clock::now() - taken_;
  const bool is_stepped = !spare && last_ && mesh.ticks() <= last_->tick + kStepped;
  // A mesh that is stepped shows each of its ticks; one that has not ticked need not be read again at once.
  Clock::duration least = mesh.ticks() == (last_ ? last_->tick : 0) ? Clock::duration(kApart) : Clock::duration(0);
  if (!is_stepped && last_)
    least = spare > wall_ * 2 ? Clock::duration(kApart) : std::max<Clock::duration>(kApart, cost_ * kShare);
  if (!last_) least = kApart;
  if (age < least && !is_other) return last_;
  if (age < least && last_)
    return fail(Errc::full, "cells: those of session number " + std::to_string(last_->lane) +
                                " were read just now; ask for those of session number " + std::to_string(lane) +
                                " again in a moment");
  const auto begin = thread_time();
  const auto begun = Clock::now();
  auto frame = make_frame();
  frame->lane = lane;
  read(mesh, *frame);
  last_ = std::move(frame);
  cost_ = thread_time() - begin;
  taken_ = Clock::now();
  wall_ = taken_ - begun;
  return last_;
}

bool CellFrames::joins(const Run& next) {
  if (runs_.empty()) return false;
  Run& last = runs_.back();
  if (last.width != next.width || last.mask != next.mask || last.slot != next.slot) return false;
  if (last.count == 1) last.step = next.base - last.base;
  if (next.base != last.base + static_cast<std::ptrdiff_t>(last.count) * last.step) return false;
  ++last.count;
  return true;
}

void CellFrames::find_runs(const mesh::Mesh& mesh) {
  const mesh::State& state = mesh::MeshAccess::state(mesh);
  runs_.clear();
  std::size_t at = 0;
  for (const auto& cell : mesh::MeshAccess::cells(mesh)) {
    const mesh::NodeId node = cell->first() + cell->layers() - 1;
    const auto first = state.output(node, 0), second = state.output(node, 1);
    const Run run{first.data,  second.data - first.data, 0, state.options().depth_of(node) - 1, at, 1, first.cols,
                  first.stride};
    if (!joins(run)) runs_.push_back(run);
    ++at;
  }
  state_id_ = state.id();
}

void CellFrames::read(const mesh::Mesh& mesh, CellFrame& to) {
  // Also brings a device's state to the host.
  if (mesh::MeshAccess::state(mesh).id() != state_id_) find_runs(mesh);
  const std::uint64_t tick = mesh.ticks();
  to.tick = tick;
  to.activity.resize(places_->places.size());
  to.value.resize(places_->places.size());
  for (const Run& run : runs_) {
    const float* from = run.base + static_cast<std::ptrdiff_t>(tick & run.mask) * run.slot +
                        static_cast<std::ptrdiff_t>(to.lane * run.stride);
    const std::size_t count = std::min(run.width, values_each_);
    if (count == 1) {  // most often: nothing to add up
      for (std::size_t i = run.first; i < run.first + run.count; ++i, from += run.step) {
        to.value[i] = *from;
        to.activity[i] = std::fabs(*from);
      }
      continue;
    }
    const float scale = 1.0f / static_cast<float>(std::max<std::size_t>(count, 1));
    for (std::size_t i = run.first; i < run.first + run.count; ++i, from += run.step) {
      float sum = 0;
      for (std::size_t k = 0; k < count; ++k) sum += std::fabs(from[k]);
      to.activity[i] = sum * scale;
      to.value[i] = count > 0 ? from[0] : 0.0f;
    }
  }
}

}  // namespace weft::server
