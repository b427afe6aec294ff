// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/host_device_exchange.hpp"

#include <cstring>

namespace weft::mesh {
namespace {
// The rest of a row's last cache line: such gaps are transferred with the rows on both sides of them.
constexpr std::size_t kGap = 64;
}  // namespace

HostDeviceExchange::PendingTransfers HostDeviceExchange::meet(const ByteRanges& by_host, const ByteRanges& by_device) {
  // A side that never touched a range never wrote it, so the other side's values count.
  const ByteRanges new_to_host = without(by_host, by_host_), new_to_device = without(by_device, by_device_);
  if (new_to_host.empty() && new_to_device.empty()) return {};
  PendingTransfers pending{common(new_to_device, by_host_), common(new_to_host, by_device_)};
  by_host_ = united(by_host_, new_to_host);
  by_device_ = united(by_device_, new_to_device);
  ++changes_;
  return pending;
}

void HostDeviceExchange::refresh(Step& step) const {
  if (step.made_at == changes_) return;
  step.in = bridged(common(step.host_writes, by_device_), kGap, by_device_);
  step.out = bridged(common(step.device_writes, by_host_), kGap, by_host_);
  step.made_at = changes_;
  step.kept_at = 0;
}

void HostDeviceExchange::keep(const ByteRanges& ranges) {
  const ByteRanges all = without(ranges, kept_);
  if (all.empty()) return;
  for (const ByteRange& range : all) {
    const auto* const from = reinterpret_cast<const std::byte*>(range.begin);
    bytes_.insert(bytes_.end(), from, from + (range.end - range.begin));
    kept_ranges_.push_back(range);
  }
  kept_ = united(kept_, all);
}

void HostDeviceExchange::keep(Step& step) {
  if (step.kept_at == epoch_) return;
  keep(step.host_writes);
  keep(step.out);
  step.kept_at = epoch_;
}

void HostDeviceExchange::take_back() noexcept {
  const std::byte* from = bytes_.data();
  for (const ByteRange& range : kept_ranges_) {
    const std::size_t bytes = range.end - range.begin;
    std::memcpy(reinterpret_cast<void*>(range.begin), from, bytes);
    from += bytes;
  }
}

void HostDeviceExchange::forget() noexcept {
  kept_.clear();
  kept_ranges_.clear();
  bytes_.clear();
  ++epoch_;
}

}  // namespace weft::mesh
