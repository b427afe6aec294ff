// SPDX-License-Identifier: Apache-2.0

#include "server/heat_map.hpp"

#include "core/json_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

namespace weft::server {
namespace {

constexpr std::array<std::string_view, 4> kMetrics{"activity", "value", "faults", "status"};
constexpr std::uint32_t kLargestPicture = 1024;  // places each way
constexpr std::size_t kMostRows = 1000;          // of a list
constexpr std::uint8_t kNoCell = 255, kLargestCode = 254;
constexpr std::uint8_t kIsSigned = 1, kIsPooled = 2;

template <class Number>
void append_little_endian(std::string& to, Number value) {
  static_assert(std::is_unsigned_v<Number>);
  for (std::size_t i = 0; i < sizeof value; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

void append_float(std::string& to, float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  append_little_endian(to, bits);
}

/// A number of a query.
Result<std::uint64_t> read_natural(const std::string& key, const std::string& text, std::uint64_t min,
                                   std::uint64_t max) {
  WEFT_TRY(const Json json, parse_json(text, key));
  return JsonValue(json, key).u64(min, max);
}

/// One place of a picture, which may stand for several of the grid.
struct Pool {
  float farthest = 0, sum = 0;
  std::uint32_t cells = 0;
  void add(float value) noexcept {
    if (std::fabs(value) > std::fabs(farthest)) farthest = value;
    sum += value;
    ++cells;
  }
  float value(CellMetric metric) const noexcept {
    return metric == CellMetric::activity ? sum / static_cast<float>(cells) : farthest;
  }
};

struct Scale {
  float low = 0, high = 0;
};

Scale scale_of(CellMetric metric, const std::vector<Pool>& pools) {
  if (metric == CellMetric::status) return {0, static_cast<float>(kLargestCode)};  // codes are the statuses
  Scale scale{std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
  for (const Pool& each : pools) {
    if (each.cells == 0) continue;
    scale.low = std::min(scale.low, each.value(metric));
    scale.high = std::max(scale.high, each.value(metric));
  }
  if (scale.low > scale.high) return {};
  if (metric == CellMetric::faults) scale.low = 0;
  if (metric == CellMetric::value) {
    scale.high = std::max(std::fabs(scale.low), std::fabs(scale.high));
    scale.low = -scale.high;
  }
  return scale;
}

std::uint8_t code_of(float value, const Scale& scale) noexcept {
  const float range = scale.high - scale.low;
  if (!(range > 0)) return 0;
  const float code = (value - scale.low) / range * static_cast<float>(kLargestCode);
  return static_cast<std::uint8_t>(std::clamp(std::lround(code), 0L, long{kLargestCode}));
}

}  // namespace

Result<CellQuery> read_cell_query(const HttpRequest& request, const MeshDescription& of) {
  CellQuery query;
  WEFT_TRY(const auto pairs, parse_query(request.query));
  for (const auto& [key, text] : pairs) {
    if (key == "metric") {
      const auto found = std::find(kMetrics.begin(), kMetrics.end(), text);
      if (found == kMetrics.end())
        return fail(Errc::unknown_name, "metric: '" + text + "' is none of activity, value, faults, status");
      query.metric = static_cast<CellMetric>(found - kMetrics.begin());
    } else if (key == "z") {
      WEFT_TRY(const auto z, read_natural(key, text, 0, of.grid[0] - 1));
      query.z = static_cast<std::uint32_t>(z);
    } else if (key == "w" || key == "h") {
      WEFT_TRY(const auto size, read_natural(key, text, 1, kLargestPicture));
      (key == "w" ? query.width : query.height) = static_cast<std::uint32_t>(size);
    } else if (key == "most") {
      WEFT_TRY(query.most, read_natural(key, text, 1, kMostRows));
    } else if (key == "session") {
      query.session = text;
    } else {
      return fail(Errc::unknown_name, "query: '" + key + "' is none of metric, z, w, h, most, session");
    }
  }
  return query;
}

std::vector<float> cell_values(CellMetric metric, const CellFrame& frame, const actors::Registry& registry) {
  if (metric == CellMetric::activity) return frame.activity;
  if (metric == CellMetric::value) return frame.value;
  std::vector<float> values(frame.activity.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const actors::ActorView view = registry.view(static_cast<actors::ActorId>(i));
    values[i] = metric == CellMetric::faults ? static_cast<float>(view.faults)
                                             : static_cast<float>(static_cast<std::uint32_t>(view.status));
  }
  return values;
}

std::string draw_heat_map(const CellQuery& query, const CellPlaces& places, std::uint64_t tick,
                          std::span<const float> values) {
  const GridShape& grid = places.grid;
  const std::uint32_t width = std::min(query.width, grid.x), height = std::min(query.height, grid.y);
  std::vector<Pool> pools(std::size_t{width} * height);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Coord at = grid.coord(places.places[i]);
    if (at.z != query.z) continue;
    const std::size_t row = std::size_t{at.y} * height / grid.y, column = std::size_t{at.x} * width / grid.x;
    pools[row * width + column].add(values[i]);
  }
  const Scale scale = scale_of(query.metric, pools);
  std::string out = "WHM1";
  out.reserve(32 + pools.size());
  for (const std::uint32_t each : {width, height, query.z})
    append_little_endian(out, static_cast<std::uint16_t>(std::min<std::uint32_t>(each, UINT16_MAX)));
  out += static_cast<char>(query.metric);
  out += static_cast<char>((query.metric == CellMetric::value ? kIsSigned : 0) |
                           (width < grid.x || height < grid.y ? kIsPooled : 0));
  append_little_endian(out, std::uint32_t{0});
  append_little_endian(out, tick);
  append_float(out, scale.low);
  append_float(out, scale.high);
  for (const Pool& each : pools)
    out += static_cast<char>(each.cells == 0 ? kNoCell : code_of(each.value(query.metric), scale));
  return out;
}

}  // namespace weft::server
