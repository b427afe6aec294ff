// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/cell_frames.hpp"
#include "server/http_message.hpp"
#include "server/served_mesh.hpp"

#include "actors/registry.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::server {

/// A property of cells that can be drawn or sorted by. `activity` and `value` are a session's; `faults` and `status`
/// are the whole cell's.
enum class CellMetric : std::uint8_t { activity, value, faults, status };

/// Part of the cells that is asked for.
struct CellQuery {
  CellMetric metric = CellMetric::activity;
  std::uint32_t z = 0;
  std::uint32_t width = 256, height = 256;  ///< of the picture, at most
  std::size_t most = 20;                    ///< rows of a list
  std::string session;                      ///< empty: the first
};
/// Of "metric=faults&z=1&w=64&h=64&most=20&session=s". @error unknown_name, out_of_range, parse_failed: naming the key
Result<CellQuery> read_cell_query(const HttpRequest& request, const MeshDescription& of);

/// The metric of each cell, by its number. @thread any: what a tick changes is in the frame
/// `made` holds those that the frame does not.
std::span<const float> cell_values(CellMetric metric, const CellFrame& frame, const actors::Registry& registry,
                                   std::vector<float>& made);

/// A picture of one z of the grid: 32 bytes of head, then a byte for each place, row by row, 255 where no cell is, else
/// 0 to 254 from the head's smallest to its largest number. All is little-endian.
///   bytes | head
///   4     | "WHM1"
///   2 2 2 | width, height, z
///   1     | metric, by CellMetric
///   1     | flags: 1, the scale is as far below zero as above; 2, a byte stands for several places
///   4     | 0
///   8     | tick
///   4 4   | smallest and largest number, float32
/// A grid that is larger than the picture is pooled: activity by its mean, others by what is farthest from zero.
/// @shape  values [places.places.size()]
std::string draw_heat_map(const CellQuery& query, const CellPlaces& places, std::uint64_t tick,
                          std::span<const float> values);

}  // namespace weft::server
