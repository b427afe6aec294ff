// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_region.hpp"
#include "mesh/fwd.hpp"
#include "mesh/memory/byte_archive.hpp"

#include "core/state_hash.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

namespace weft::mesh {

/// Facts about a rule that a device needs to record its steps (mesh/device/device_executor.hpp).
class RecordableRule {
 public:
  virtual ~RecordableRule() = default;
  /// The memory that its steps touch besides mesh and weights. Windows are rings over samples.
  virtual void each_region(const std::function<void(const DeviceRegion&)>& visit) const = 0;
  /// Steps after which a recorded run repeats itself.
  virtual std::uint64_t period() const noexcept = 0;
  /// Samples [first, second) of which `count` steps from `step` on touch windows; `tick` is `step`'s.
  virtual std::pair<std::uint64_t, std::uint64_t> samples_of(std::uint64_t step, std::uint64_t tick,
                                                             std::uint64_t count) const = 0;
  /// Samples that `samples_of` names beyond one for each step, at most: windows on a device hold them too.
  virtual std::uint64_t samples_ahead() const noexcept = 0;
  /// Key of all that these steps' operations depend on besides the tick's position in the rings. None: it depends on
  /// more than can be told, so the steps are recorded each time.
  virtual std::optional<Hash128> record_key(std::uint64_t step, std::uint64_t tick, std::uint64_t count) const = 0;
  /// Counts of updates by node, and the addition to them where recorded steps run again.
  virtual std::span<const std::uint64_t> update_counts() const noexcept = 0;
  virtual void add_updates(NodeId node, std::uint64_t updates) noexcept = 0;
  /// True when a device may find that a node has nothing to learn in a step, and count its updates itself.
  virtual bool may_skip(NodeId node) const noexcept = 0;
  /// Part of it that the host alone changes as it runs: counters, labels, update counts; and back.
  virtual void take_host_snapshot(ByteArchive& to) const = 0;
  virtual void restore_host_snapshot(const ByteArchive& from) = 0;
};

}  // namespace weft::mesh
