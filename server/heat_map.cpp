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

constexpr Scale kNothing{std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};

Scale scale_of(CellMetric metric, const std::vector<Pool>& pools) {
  Scale scale = kNothing;
  for (const Pool& each : pools) {
    if (each.cells == 0) continue;
    scale.low = std::min(scale.low, each.value(metric));
    scale.high = std::max(scale.high, each.value(metric));
  }
  return scale;
}

/// In lanes, which the compiler computes together.
Scale scale_of(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> low, high;
  low.fill(kNothing.low), high.fill(kNothing.high);
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t k = 0; k < kLanes; ++k) {
      const float value = values[i + k];
      low[k] = value < low[k] ? value : low[k];
      high[k] = value > high[k] ? value : high[k];
    }
  for (; i < values.size(); ++i) low[0] = std::min(low[0], values[i]), high[0] = std::max(high[0], values[i]);
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end())};
}

Scale fitted(CellMetric metric, Scale scale) {
  if (metric == CellMetric::status) return {0, static_cast<float>(kLargestCode)};  // codes are the statuses
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

/// Codes of a plane that has a cell at each place and is not pooled: the same but for ties, without calls.
void append_codes(std::string& to, std::span<const float> values, const Scale& scale) {
  const float range = scale.high - scale.low;
  const std::size_t first = to.size();
  to.resize(first + values.size(), '\0');
  if (!(range > 0)) return;
  const float step = static_cast<float>(kLargestCode) / range;
  char* const out = to.data() + first;
  for (std::size_t i = 0; i < values.size(); ++i) {
    float code = (values[i] - scale.low) * step + 0.5f;
    code = code > 0.0f ? code : 0.0f;  // not a number: 0
    code = code < static_cast<float>(kLargestCode) ? code : static_cast<float>(kLargestCode);
    out[i] = static_cast<char>(static_cast<std::uint8_t>(static_cast<std::int32_t>(code)));
  }
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

std::span<const float> cell_values(CellMetric metric, const CellFrame& frame, const actors::Registry& registry,
                                   std::vector<float>& made) {
  if (metric == CellMetric::activity) return frame.activity;
  if (metric == CellMetric::value) return frame.value;
  made.resize(frame.activity.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const actors::ActorView view = registry.view(static_cast<actors::ActorId>(i));
    made[i] = metric == CellMetric::faults ? static_cast<float>(view.faults)
                                           : static_cast<float>(static_cast<std::uint32_t>(view.status));
  }
  return made;
}

std::string draw_heat_map(const CellQuery& query, const CellPlaces& places, std::uint64_t tick,
                          std::span<const float> values) {
  const GridShape& grid = places.grid;
  const std::uint32_t width = std::min(query.width, grid.x), height = std::min(query.height, grid.y);
  const bool is_whole = places.is_full && width == grid.x && height == grid.y;
  const std::size_t size = std::size_t{width} * height;
  std::vector<Pool> pools(is_whole ? 0 : size);
  for (std::size_t i = 0; i < values.size() && !is_whole; ++i) {
    const Coord at = grid.coord(places.places[i]);
    if (at.z != query.z) continue;
    const std::size_t row = std::size_t{at.y} * height / grid.y, column = std::size_t{at.x} * width / grid.x;
    pools[row * width + column].add(values[i]);
  }
  if (is_whole) values = values.subspan(query.z * size, size);
  const Scale scale = fitted(query.metric, is_whole ? scale_of(values) : scale_of(query.metric, pools));
  std::string out = "WHM1";
  out.reserve(32 + size);
  for (const std::uint32_t each : {width, height, query.z})
    append_little_endian(out, static_cast<std::uint16_t>(std::min<std::uint32_t>(each, UINT16_MAX)));
  out += static_cast<char>(query.metric);
  out += static_cast<char>((query.metric == CellMetric::value ? kIsSigned : 0) |
                           (width < grid.x || height < grid.y ? kIsPooled : 0));
  append_little_endian(out, std::uint32_t{0});
  append_little_endian(out, tick);
  append_float(out, scale.low);
  append_float(out, scale.high);
  if (is_whole) append_codes(out, values, scale);
  for (const Pool& each : pools)
    out += static_cast<char>(each.cells == 0 ? kNoCell : code_of(each.value(query.metric), scale));
  return out;
}

}  // namespace weft::server
