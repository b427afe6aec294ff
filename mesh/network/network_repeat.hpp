// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/network.hpp"

#include "core/json_reader.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace weft::mesh {

/// Places of the grid that one entry of "layers" stands for: a range of every axis (z, y, x, layer), in index order.
struct PlaceRanges {
  struct Range {
    std::uint32_t first = 0, end = 0, step = 1;  // first, first + step, ... below end
    std::uint64_t count() const noexcept { return end > first ? (std::uint64_t{end} - first + step - 1) / step : 0; }
  };
  std::array<Range, 4> axes;

  std::uint64_t count() const noexcept;
};

/// A source as an entry writes it: a port, a place, or places found from that of the layer that reads them.
struct WrittenSource {
  std::optional<Source> absolute;             // else relative
  std::array<std::int32_t, 4> offset{};       // from the reader's place to the stencil's centre
  Neighbourhood shape = Neighbourhood::none;  // none: the centre alone
  std::uint32_t radius = 1;                   // of the shape, in cells
  bool has_centre = true;
  bool wraps = false;  // beyond an edge the grid begins anew; else nothing is there
};

/// One entry of "layers": its layer without place and sources, where it stands, and what it reads.
struct LayerEntry {
  LayerSpec layer;
  std::optional<PlaceRanges> places;  // none: layer.at alone
  std::vector<WrittenSource> sources;
  std::string path;  // "layers[3]"
};

/// Reads the key "repeat" of an entry. @error parse_failed, out_of_range: naming the path and what is expected
Result<PlaceRanges> read_repeat(const JsonValue& value, const GridShape& grid);
/// Reads a source that is an object: {"offset": ...} or {"stencil": ...}. @error as read_repeat
Result<WrittenSource> read_relative_source(const JsonValue& value);

/// The layers that entries stand for, entry after entry, each entry's in index order. Relative sources become places;
/// those outside the grid, or where no layer stands, are left out.
/// @error too_large: more than 2^24 layers, more than memory holds, or 65,536 sources; shape_mismatch: a layer of which
///        every source was left out
Result<std::vector<LayerSpec>> expand_layers(std::vector<LayerEntry> entries, const GridShape& grid);

}  // namespace weft::mesh
