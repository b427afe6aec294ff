// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/coord.hpp"
#include "core/encoding.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// Kinds of orders that `weft send` gives to a running agent.
enum class OrderKind : int { enable, disable, period, weights, reset, probe, snapshot, morph, rate, freeze, thaw };

/// Part of the mesh that an order acts on.
enum class OrderScope : int { cell, layer };

struct OrderRow {
  OrderKind kind;
  std::string_view name;
  OrderScope scope;
  bool may_be_all;         // "*": every cell, or every layer that it can act on
  std::string_view value;  // key of what must come with it; empty: nothing
};
/// A row for each kind, in their order.
const std::vector<OrderRow>& order_rows();
const OrderRow& row_of(OrderKind kind);

/// The place of an order: a cell, a layer of it, or none: all.
struct OrderPlace {
  Coord at;
  bool has_layer = false;
};

/// An order of `weft send`, as it goes over the socket (docs/formats/top.md).
struct Order {
  OrderKind kind = OrderKind::probe;
  std::optional<OrderPlace> place;       // none: all
  std::uint64_t ticks = 1;               // period
  std::uint64_t session = 0;             // probe
  std::uint32_t parameter = 0;           // weights
  float rate = 0.0f;                     // rate
  std::vector<float> values;             // weights, row-major
  Encoding encoding{};                   // morph
  std::optional<std::uint64_t> at_tick;  // not before; none: now
};

/// "0,0,1", "0,0,1,0", "[0,0,1]", or "*". @error invalid_argument: no place
Result<std::optional<OrderPlace>> read_place(std::string_view text);
/// "[0,0,1]" or "[0,0,1,0]"; "all" of none.
std::string text_of(const std::optional<OrderPlace>& place);

Json to_json(const Order& order);
/// @error parse_failed and others of the JSON reader, naming the key; invalid_argument: an order that its place or its
///        values do not fit
Result<Order> read_order(const Json& order);

}  // namespace weft::cli
