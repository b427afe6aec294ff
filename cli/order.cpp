// SPDX-License-Identifier: Apache-2.0

#include "cli/order.hpp"

#include "cli/text_format.hpp"

#include "core/json_reader.hpp"
#include "core/near_word.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 18;

Status no_place(const std::string& object) {
  return fail(Errc::invalid_argument,
              object + ": is no place; give z,y,x of a cell or z,y,x,layer, such as 0,1,0, or *");
}

Result<OrderKind> read_kind(const std::string& name) {
  std::vector<std::string_view> known;
  for (const OrderRow& row : order_rows()) {
    if (row.name == name) return row.kind;
    known.push_back(row.name);
  }
  return fail(Errc::unknown_name, "order '" + name + "': there is none" + did_you_mean(name, known));
}

Status read_json_place(JsonReader& reader, Order& order) {
  const auto cell = reader.find("cell");
  if (!cell) return {};
  WEFT_TRY(const auto parts, cell->array(3, 4));
  std::array<std::uint32_t, 4> at{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    WEFT_TRY(at[i], parts[i].u32());
  }
  order.place = OrderPlace{{at[0], at[1], at[2], at[3]}, parts.size() == 4};
  return {};
}

Status read_encoding(JsonReader& reader, Order& order) {
  WEFT_TRY(const std::string dtype_name, reader.string("dtype"));
  const auto dtype = parse_dtype(dtype_name);
  if (!dtype) return fail(Errc::unknown_name, "dtype '" + dtype_name + "': is no numeric type");
  WEFT_TRY(const std::string granularity_name, reader.string_or("granularity", ""));
  const auto granularity = parse_granularity(granularity_name);
  if (!granularity_name.empty() && (!granularity || !has_scale(*dtype)))
    return fail(Errc::invalid_argument, "granularity '" + granularity_name + "': is none that " + dtype_name + " has");
  order.encoding = Encoding(*dtype, granularity);
  return {};
}

Status read_value(JsonReader& reader, Order& order) {
  switch (order.kind) {
    case OrderKind::period: {
      WEFT_TRY(order.ticks, reader.u64("ticks", 1));
      return {};
    }
    case OrderKind::rate: {
      WEFT_TRY(order.rate, reader.f32("rate", 0.0f, 1000.0f));
      return {};
    }
    case OrderKind::probe: {
      WEFT_TRY(order.session, reader.u64_or("session", 0));
      return {};
    }
    case OrderKind::weights: {
      WEFT_TRY(order.parameter, reader.u32_or("parameter", 0));
      WEFT_TRY(const auto values, reader.array("values", 1, kMostValues));
      order.values.reserve(values.size());
      for (const JsonValue& value : values) {
        WEFT_TRY(order.values.emplace_back(), value.f32());
      }
      return {};
    }
    case OrderKind::morph:
      return read_encoding(reader, order);
    default:
      return {};
  }
}

Status check_place(const Order& order) {
  const OrderRow& row = row_of(order.kind);
  if (!order.place && !row.may_be_all)
    return fail(Errc::invalid_argument, std::string(row.name) + ": is of one layer; name it, such as 0,1,0");
  if (order.place && order.place->has_layer && row.scope == OrderScope::cell)
    return fail(Errc::invalid_argument,
                std::string(row.name) + " " + text_of(order.place) + ": is of a whole cell; give its z,y,x alone");
  return {};
}

}  // namespace

const std::vector<OrderRow>& order_rows() {
  using enum OrderKind;
  static const std::vector<OrderRow> rows{
      {enable, "enable", OrderScope::cell, true, ""},       {disable, "disable", OrderScope::cell, true, ""},
      {period, "period", OrderScope::cell, true, "ticks"},  {weights, "weights", OrderScope::layer, false, "values"},
      {reset, "reset", OrderScope::cell, true, ""},         {probe, "probe", OrderScope::layer, false, ""},
      {snapshot, "snapshot", OrderScope::layer, false, ""}, {morph, "morph", OrderScope::layer, true, "dtype"},
      {rate, "rate", OrderScope::layer, true, "rate"},      {freeze, "freeze", OrderScope::layer, true, ""},
      {thaw, "thaw", OrderScope::layer, true, ""}};
  return rows;
}

const OrderRow& row_of(OrderKind kind) { return order_rows()[static_cast<std::size_t>(kind)]; }

Result<std::optional<OrderPlace>> read_place(std::string_view text) {
  if (text == "*") return std::optional<OrderPlace>();
  const bool has_brackets = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  std::string_view rest = has_brackets ? text.substr(1, text.size() - 2) : text;
  std::array<std::uint32_t, 4> parts{};
  std::size_t count = 0;
  for (bool goes_on = true; goes_on; ++count) {
    if (count == parts.size()) return fail(no_place(std::string(text)).error());
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), parts[count]);
    if (read.ec != std::errc()) return fail(no_place(std::string(text)).error());
    rest.remove_prefix(static_cast<std::size_t>(read.ptr - rest.data()));
    goes_on = !rest.empty();
    if (goes_on && rest.front() != ',') return fail(no_place(std::string(text)).error());
    if (goes_on) rest.remove_prefix(1);
  }
  if (count < 3) return fail(no_place(std::string(text)).error());
  return std::optional(OrderPlace{{parts[0], parts[1], parts[2], parts[3]}, count == 4});
}

std::string text_of(const std::optional<OrderPlace>& place) {
  if (!place) return "all";
  const Coord at = place->at;
  return "[" + std::to_string(at.z) + "," + std::to_string(at.y) + "," + std::to_string(at.x) +
         (place->has_layer ? "," + std::to_string(at.l) : "") + "]";
}

Json to_json(const Order& order) {
  Json out{{"order", row_of(order.kind).name}};
  if (order.place) {
    const Coord at = order.place->at;
    out["cell"] = Json::array({at.z, at.y, at.x});
    if (order.place->has_layer) out["cell"].push_back(at.l);
  }
  if (order.at_tick) out["at"] = *order.at_tick;
  switch (order.kind) {
    case OrderKind::period:
      out["ticks"] = order.ticks;
      break;
    case OrderKind::rate:
      out["rate"] = as_written(order.rate);
      break;
    case OrderKind::probe:
      out["session"] = order.session;
      break;
    case OrderKind::weights:
      out["parameter"] = order.parameter;
      for (const float value : order.values) out["values"].push_back(as_written(value));
      break;
    case OrderKind::morph:
      out["dtype"] = name(order.encoding.dtype);
      if (has_scale(order.encoding.dtype)) out["granularity"] = name(order.encoding.granularity);
      break;
    default:
      break;
  }
  return out;
}

Result<Order> read_order(const Json& json) {
  WEFT_TRY(JsonReader reader, JsonReader::open(json, "send"));
  Order order;
  WEFT_TRY(const std::string name, reader.string("order"));
  WEFT_TRY(order.kind, read_kind(name));
  WEFT_CHECK(read_json_place(reader, order));
  if (const auto at = reader.find("at")) {
    WEFT_TRY(order.at_tick, at->u64());
  }
  WEFT_CHECK(read_value(reader, order));
  WEFT_CHECK(reader.finish());
  WEFT_CHECK(check_place(order));
  return order;
}

}  // namespace weft::cli
