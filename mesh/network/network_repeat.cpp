// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/network_repeat.hpp"

#include "mesh/memory/memory_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace weft::mesh {
namespace {

constexpr std::uint64_t kMaxLayers = std::uint64_t{1} << 24;
constexpr std::size_t kMaxSources = 65536;
constexpr std::uint32_t kMaxRadius = 8;
constexpr std::array<std::string_view, 4> kAxes{"z", "y", "x", "layer"};

std::array<std::uint32_t, 4> extents(const GridShape& grid) { return {grid.z, grid.y, grid.x, grid.layers}; }

/// "3", "[first, end]" or "[first, end, step]".
Result<PlaceRanges::Range> read_range(const JsonValue& value, std::uint32_t extent) {
  PlaceRanges::Range range;
  if (!value.is_array()) {
    if (!value.is_number()) return value.unexpected("a number, or [first, end], or [first, end, step]");
    WEFT_TRY(range.first, value.u32(0, extent - 1));
    range.end = range.first + 1;
    return range;
  }
  WEFT_TRY(const auto parts, value.array(2, 3));
  WEFT_TRY(range.end, parts[1].u32(1, extent));
  WEFT_TRY(range.first, parts[0].u32(0, range.end - 1));
  if (parts.size() == 3) {
    WEFT_TRY(range.step, parts[2].u32(1));
  }
  return range;
}

Result<std::int32_t> read_step(const JsonValue& value) {
  constexpr double kFar = 2147483647;
  WEFT_TRY(const double number, value.f64(-kFar, kFar));
  if (number != std::floor(number)) return value.unexpected("a whole number");
  return static_cast<std::int32_t>(number);
}

/// Offsets of one axis of a stencil. Round a short axis each place is met once.
std::pair<std::int32_t, std::int32_t> reach(const WrittenSource& source, std::uint32_t extent) {
  const auto radius = static_cast<std::int32_t>(source.radius);
  if (source.shape == Neighbourhood::none) return {0, 0};
  if (!source.wraps || extent > 2 * source.radius) return {-radius, radius};
  const auto n = static_cast<std::int32_t>(extent);
  return {-(n - 1) / 2, n / 2};
}

/// Layers as they are spread over the grid, and where each of them stands.
class Expansion {
 public:
  Expansion(const GridShape& grid, std::uint64_t layers) : grid_(grid), extents_(extents(grid)) {
    layers_.reserve(layers);
    places_.reserve(layers);
  }

  void place(const LayerEntry& entry, std::size_t number, Coord at) {
    layers_.push_back(entry.layer);
    layers_.back().at = at;
    entry_of_.push_back(number);
    if (grid_.contains(at)) places_.push_back(static_cast<std::uint32_t>(grid_.index(at)));
  }
  void seal() { std::sort(places_.begin(), places_.end()); }

  Status find_sources(const std::vector<LayerEntry>& entries) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const LayerEntry& entry = entries[entry_of_[i]];
      LayerSpec& layer = layers_[i];
      for (const WrittenSource& source : entry.sources) add(source, layer);
      const std::string at = entry.path + ".from" + (entry.places ? " (at " + to_string(layer.at) + ")" : "");
      if (layer.from.size() > kMaxSources)
        return fail(Errc::too_large,
                    at + ": " + std::to_string(layer.from.size()) + " sources, at most 65536 are read");
      if (!entry.sources.empty() && layer.from.empty() && layer.neighbours == Neighbourhood::none)
        return fail(Errc::shape_mismatch,
                    at + ": every source lies outside the grid or where no layer stands; add one that does not, or " +
                        "\"edge\": \"wrap\"");
    }
    return {};
  }
  std::vector<LayerSpec> take() { return std::move(layers_); }

 private:
  bool is_taken(Coord at) const {
    if (!grid_.contains(at)) return false;
    if (places_.size() == grid_.size()) return true;  // no hole anywhere; twice the same place is refused later
    return std::binary_search(places_.begin(), places_.end(), static_cast<std::uint32_t>(grid_.index(at)));
  }

  void add(const WrittenSource& source, LayerSpec& layer) const {
    if (source.absolute) {
      layer.from.push_back(*source.absolute);
      return;
    }
    const auto [z0, z1] = reach(source, extents_[0]);
    const auto [y0, y1] = reach(source, extents_[1]);
    const auto [x0, x1] = reach(source, extents_[2]);
    for (std::int32_t z = z0; z <= z1; ++z)
      for (std::int32_t y = y0; y <= y1; ++y)
        for (std::int32_t x = x0; x <= x1; ++x) {
          const std::int32_t distance = std::abs(z) + std::abs(y) + std::abs(x);
          if (distance == 0 && !source.has_centre) continue;
          if (source.shape == Neighbourhood::von_neumann && distance > static_cast<std::int32_t>(source.radius))
            continue;
          if (const auto at = moved(layer.at, source, {z, y, x, 0}); at && is_taken(*at)) layer.from.emplace_back(*at);
        }
  }

  std::optional<Coord> moved(Coord from, const WrittenSource& source, const std::array<std::int32_t, 4>& by) const {
    std::array<std::uint32_t, 4> at{from.z, from.y, from.x, from.l};
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      const std::int64_t extent = extents_[axis];
      std::int64_t to = std::int64_t{at[axis]} + source.offset[axis] + by[axis];
      if (source.wraps && axis != 3) to = (to % extent + extent) % extent;  // levels are no ring
      if (to < 0 || to >= extent) return std::nullopt;
      at[axis] = static_cast<std::uint32_t>(to);
    }
    return Coord{at[0], at[1], at[2], at[3]};
  }

  GridShape grid_;
  std::array<std::uint32_t, 4> extents_;
  std::vector<LayerSpec> layers_;
  std::vector<std::size_t> entry_of_;
  std::vector<std::uint32_t> places_;  // of layers, as indices of the grid
};

}  // namespace

std::uint64_t PlaceRanges::count() const noexcept {
  std::uint64_t places = 1;
  for (const Range& range : axes) places *= range.count();  // no more than the grid has
  return places;
}

Result<PlaceRanges> read_repeat(const JsonValue& value, const GridShape& grid) {
  WEFT_CHECK(grid.check());
  WEFT_TRY(JsonReader reader, value.object());
  PlaceRanges places;
  for (std::size_t axis = 0; axis < kAxes.size(); ++axis) {
    const std::uint32_t extent = extents(grid)[axis];
    places.axes[axis] = {0, extent, 1};
    if (const auto range = reader.find(kAxes[axis])) {
      WEFT_TRY(places.axes[axis], read_range(*range, extent));
    }
  }
  WEFT_CHECK(reader.finish());
  return places;
}

Result<WrittenSource> read_relative_source(const JsonValue& value) {
  WEFT_TRY(JsonReader reader, value.object());
  WrittenSource source;
  if (const auto offset = reader.find("offset")) {
    WEFT_TRY(const auto parts, offset->array(4, 4));
    for (std::size_t axis = 0; axis < parts.size(); ++axis) {
      WEFT_TRY(source.offset[axis], read_step(parts[axis]));
    }
  }
  const auto stencil = reader.find("stencil");
  if (stencil) {
    WEFT_TRY(source.shape, stencil->one_of(parse_neighbourhood, {"von_neumann", "moore"}));
    if (source.shape == Neighbourhood::none) return stencil->unexpected("von_neumann or moore");
    WEFT_TRY(source.radius, reader.u32_or("radius", 1, 1, kMaxRadius));
    WEFT_TRY(source.has_centre, reader.boolean_or("centre", false));
  } else if (!reader.find("offset")) {
    return value.unexpected("the name of an input, a place [z,y,x,layer], or an object with \"offset\" or \"stencil\"");
  }
  const auto parse_edge = [](std::string_view text) -> std::optional<bool> {
    if (text == "wrap") return true;
    return text == "drop" ? std::optional<bool>(false) : std::nullopt;
  };
  if (const auto edge = reader.find("edge")) {
    WEFT_TRY(source.wraps, edge->one_of(parse_edge, {"drop", "wrap"}));
  }
  WEFT_CHECK(reader.finish());
  return source;
}

Result<std::vector<LayerSpec>> expand_layers(std::vector<LayerEntry> entries, const GridShape& grid) {
  std::uint64_t layers = 0;
  for (const LayerEntry& entry : entries) {
    layers += entry.places ? entry.places->count() : 1;
    if (layers > kMaxLayers)
      return fail(Errc::too_large, entry.path + ": with it there are " + std::to_string(layers) +
                                       " layers, at most 16777216 are read; repeat fewer");
  }
  const bool is_plain = std::none_of(entries.begin(), entries.end(),
                                     [](const LayerEntry& entry) { return entry.places || !entry.sources.empty(); });
  if (is_plain) {
    std::vector<LayerSpec> plain;
    plain.reserve(entries.size());
    for (LayerEntry& entry : entries) plain.push_back(std::move(entry.layer));
    return plain;
  }
  WEFT_CHECK(check_layers_fit("the network", layers, 0));
  Expansion expansion(grid, layers);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const LayerEntry& entry = entries[i];
    if (!entry.places) {
      expansion.place(entry, i, entry.layer.at);
      continue;
    }
    const auto& [zs, ys, xs, ls] = entry.places->axes;
    for (std::uint64_t z = zs.first; z < zs.end; z += zs.step)
      for (std::uint64_t y = ys.first; y < ys.end; y += ys.step)
        for (std::uint64_t x = xs.first; x < xs.end; x += xs.step)
          for (std::uint64_t l = ls.first; l < ls.end; l += ls.step)
            expansion.place(entry, i,
                            {static_cast<std::uint32_t>(z), static_cast<std::uint32_t>(y),
                             static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(l)});
  }
  expansion.seal();
  WEFT_CHECK(expansion.find_sources(entries));
  return expansion.take();
}

}  // namespace weft::mesh
