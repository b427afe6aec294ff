// SPDX-License-Identifier: Apache-2.0

// Rotary positions out of their parts, x cosines + partner sines, and products with tables that they consist of.

#include "models/onnx/internal/onnx_operators.hpp"

#include <algorithm>
#include <utility>

namespace weft::models::onnx {

using Kind = Pattern::Kind;

namespace {

constexpr std::size_t kMostWeighed = std::size_t{1} << 22;
constexpr double kSame = 1e-6;  // of a cosine that stands twice in a table

bool is_alike(double a, double b) { return a - b <= kSame && b - a <= kSame; }

/// Places of the values in the one layer that makes all; empty: there are several.
std::vector<std::size_t> places_of(const Stream& stream) {
  std::vector<std::size_t> places;
  for (const Chunk& chunk : stream.chunks) {
    if (chunk.base < 0 || chunk.base != stream.chunks[0].base) return {};
    for (std::size_t i = 0; i < chunk.count; ++i) places.push_back(chunk.offset + i);
  }
  return places;
}

std::size_t stride_of(const Shape& shape, std::size_t axis) {
  std::size_t stride = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) stride *= shape[i];
  return stride;
}

std::size_t partner_of(std::size_t d, std::size_t dims, bool is_half) {
  return is_half ? (d + dims / 2) % dims : d ^ 1;
}

/// Tables of the positions along `axis`; nothing: the values are others elsewhere, or no cosines and sines.
std::optional<TurnTables> tables_along(std::size_t axis, const Shape& shape, const std::vector<double>& cosines,
                                       const std::vector<double>& sines, bool is_half) {
  const std::size_t dims = shape.back(), tokens = shape[axis], stride = stride_of(shape, axis);
  TurnTables tables{tokens, dims / 2, std::vector<double>(tokens * dims / 2), std::vector<double>(tokens * dims / 2)};
  for (std::size_t e = 0; e < cosines.size(); ++e) {
    const std::size_t d = e % dims, t = e / stride % tokens, first = t * stride;
    if (cosines[e] != cosines[first + d] || sines[e] != sines[first + d]) return std::nullopt;
    const std::size_t other = partner_of(d, dims, is_half);
    if (d > other) continue;
    if (!is_alike(cosines[e], cosines[e - d + other]) || !is_alike(sines[e], -sines[e - d + other]))
      return std::nullopt;
    const std::size_t pair = t * tables.pairs + (is_half ? d : d / 2);
    tables.cosines[pair] = cosines[e], tables.sines[pair] = sines[e - d + other];
  }
  return tables;
}

std::vector<double> table_of(const Pattern& part) {
  std::vector<double> values = part.table ? *part.table : std::vector<double>(elements_of(part.x.shape), 1.0);
  for (double& value : values) value *= part.factor;
  return values;
}
Pattern weighed_pattern(Stream x, std::vector<double> table) {
  Pattern made{Kind::weighed, std::move(x)};
  made.table = std::make_shared<const std::vector<double>>(std::move(table));
  return made;
}

}  // namespace

std::vector<std::size_t> places_within(const Shape& from, const Shape& to) {
  Shape own = from;
  while (own.size() > to.size() && own.front() == 1) own.erase(own.begin());
  if (own.size() > to.size()) return {};
  own.insert(own.begin(), to.size() - own.size(), 1);
  std::vector<std::size_t> places(elements_of(to), 0);
  std::size_t stride = 1, spread = 1;
  for (std::size_t i = to.size(); i-- > 0;) {
    if (own[i] != 1 && own[i] != to[i]) return {};
    if (own[i] != 1)
      for (std::size_t e = 0; e < places.size(); ++e) places[e] += e / spread % to[i] * stride;
    stride *= own[i], spread *= to[i];
  }
  return places;
}

Result<std::optional<TableParts::Values>> TableParts::weighed(const Stream& x, double factor,
                                                              const std::vector<double>* table, const Constant& by) {
  const auto none = std::optional<Values>();
  const std::size_t count = elements_of(x.shape);
  if (!is_real_type(by.type) || by.count() == 0 || count == 0 || count > kMostWeighed) return none;
  WEFT_TRY(const std::vector<double> numbers, reals_of(by));
  // A factor for all, or one above 0 for each value of the last axis, is a layer's or another function's.
  const bool is_last = !by.shape.empty() && by.count() == x.shape.back() && by.shape.back() == by.count();
  if (!table &&
      (numbers.size() == 1 || (is_last && std::all_of(numbers.begin(), numbers.end(), [](double v) { return v > 0; }))))
    return none;
  const std::vector<std::size_t> places = places_within(by.shape, x.shape);
  if (places.empty()) return none;
  moved_ += count;
  if (moved_ > kMostMoved) return fail(Errc::too_large, "products with tables of too many values");
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = factor * numbers[places[i]] * (table ? (*table)[i] : 1.0);
  return std::optional(Values{weighed_pattern(x, std::move(values))});
}

Result<std::optional<TableParts::Values>> TableParts::known_part(const OperatorNode& n) {
  const std::string_view type = n.node.type;
  const auto none = std::optional<Values>();
  if (is_move(type)) return moved_part(n);
  const auto known_pattern = [](const Value& value) -> const Pattern* {
    const auto* const part = std::get_if<Pattern>(&value);
    return part && (part->kind == Kind::weighed || part->kind == Kind::scaled) ? part : nullptr;
  };
  if (type == "Neg") {
    Pattern made{Kind::scaled, {}};
    if (const auto* const x = std::get_if<Stream>(&n.inputs[0]))
      made.x = *x;
    else if (const Pattern* const part = known_pattern(n.inputs[0]))
      made = *part;
    else
      return none;
    made.factor = -made.factor;
    return std::optional(Values{std::move(made)});
  }
  if (!n.has(1)) return none;
  for (const auto& [a, b] : {std::pair(&n.inputs[0], &n.inputs[1]), std::pair(&n.inputs[1], &n.inputs[0])}) {
    const Pattern* const part = known_pattern(*a);
    if (const auto* const by = std::get_if<Constant>(b); by && type == "Mul") {
      if (const auto* const x = std::get_if<Stream>(a)) return weighed(*x, 1, nullptr, *by);
      if (part) return weighed(part->x, part->factor, part->table.get(), *by);
    }
    if (type != "Add" || !part || part->kind != Kind::weighed) continue;
    if (const Pattern* const other = known_pattern(*b); other && other->kind == Kind::weighed)
      if (auto made = turned_part(*part, *other, n.label)) return made;
    // At position 0 all sines are 0.
    const auto* const stream = std::get_if<Stream>(b);
    const bool is_zero = std::all_of(part->table->begin(), part->table->end(), [](double v) { return v == 0; });
    if (stream && is_zero && stream->shape == part->x.shape) return std::optional(Values{*stream});
  }
  return none;
}

Result<std::optional<TableParts::Values>> TableParts::moved_part(const OperatorNode& n) {
  const auto none = std::optional<Values>();
  const std::size_t count = moved_operands(n.node);
  bool has_table = false;
  for (std::size_t i = 0; i < std::min(count, n.inputs.size()); ++i) {
    const auto* const part = std::get_if<Pattern>(&n.inputs[i]);
    if (!part && !std::holds_alternative<Stream>(n.inputs[i])) return none;
    if (part && part->kind != Kind::weighed && part->kind != Kind::scaled) return none;
    has_table |= part && (part->kind == Kind::weighed || part->factor < 0);
  }
  if (!has_table) return none;
  std::vector<Operand> operands;
  std::vector<const Stream*> streams;
  std::vector<double> table;
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    if (const auto* const known = std::get_if<Constant>(&n.inputs[i])) {
      operands.push_back({&known->shape, known});
      continue;
    }
    const auto* const part = std::get_if<Pattern>(&n.inputs[i]);
    const auto* const x = part ? &part->x : std::get_if<Stream>(&n.inputs[i]);
    if (!x) {
      operands.emplace_back();
      continue;
    }
    operands.push_back({&x->shape, nullptr});
    streams.push_back(x);
    const std::size_t values = elements_of(x->shape);
    if (values > kMostWeighed || (moved_ += values) > kMostMoved) return none;
    const std::vector<double> own = part ? table_of(*part) : std::vector<double>(values, 1.0);
    table.insert(table.end(), own.begin(), own.end());
  }
  WEFT_TRY(const std::vector<Moved> moves, moves_of(n.node, operands, opset_));
  Values made;
  for (const Moved& move : moves) {
    std::vector<double> values = table;
    if (!move.is_same_order) {
      if ((moved_ += move.places.size()) > kMostMoved) return fail(Errc::too_large, "values in too many other orders");
      values.clear();
      for (const std::int64_t place : move.places)
        values.push_back(place < 0 ? 0.0 : table[static_cast<std::size_t>(place)]);
    }
    made.emplace_back(weighed_pattern(moved_stream(move, streams), std::move(values)));
  }
  return std::optional(std::move(made));
}

std::optional<TableParts::Values> TableParts::turned_part(const Pattern& a, const Pattern& b,
                                                          const std::string& label) {
  const Shape& shape = a.x.shape;
  if (shape != b.x.shape || shape.size() < 2 || shape.back() % 2 != 0) return std::nullopt;
  const std::vector<double> of_a = table_of(a), of_b = table_of(b);
  const std::vector<std::size_t> place_a = places_of(a.x), place_b = places_of(b.x);
  if (place_a.size() != of_a.size() || place_b.size() != of_b.size() || a.x.chunks[0].base != b.x.chunks[0].base ||
      layers_.at(a.x.chunks[0].base).rotary)
    return std::nullopt;
  const std::size_t dims = shape.back();
  for (const bool is_half : {true, false})
    for (const bool is_first : {true, false}) {
      const Stream& x = is_first ? a.x : b.x;
      const auto &own = is_first ? place_a : place_b, &other = is_first ? place_b : place_a;
      bool is_turned = true;
      for (std::size_t e = 0; e < own.size() && is_turned; ++e)
        is_turned = other[e] == own[e - e % dims + partner_of(e % dims, dims, is_half)];
      if (!is_turned) continue;
      for (std::size_t axis = shape.size() - 1; axis-- > 0;) {
        const auto tables = tables_along(axis, shape, is_first ? of_a : of_b, is_first ? of_b : of_a, is_half);
        const auto turns = tables ? find_turns(*tables, is_half) : std::nullopt;
        if (turns) return Values{turned(x, axis, *turns, label)};
      }
    }
  return std::nullopt;
}

std::optional<Turns> TableParts::find_turns(const TurnTables& tables, bool is_half) {
  if (!last_turns_ || last_turns_->is_half != is_half || !(tables == last_)) {
    auto found = turns_of(tables, is_half);
    if (!found) return std::nullopt;
    last_ = tables, last_turns_ = std::move(found);
  }
  return last_turns_;
}

Stream TableParts::turned(const Stream& x, std::size_t axis, Turns turns, const std::string& label) {
  const std::int32_t base = x.chunks[0].base;
  const std::size_t width = x.shape.back(), stride = stride_of(x.shape, axis), tokens = x.shape[axis];
  Rotary rotary{std::move(turns), {}, {}};
  rotary.elements.assign(layers_.size_of(base), -1);
  rotary.positions.assign(layers_.size_of(base), 0);
  const std::vector<std::size_t> places = places_of(x);
  for (std::size_t e = 0; e < places.size(); ++e) {
    if (e % width >= rotary.turns.dims) continue;
    rotary.elements[places[e]] = static_cast<std::int32_t>(e % width);
    rotary.positions[places[e]] = static_cast<std::uint32_t>(e / stride % tokens);
  }
  FoundLayer layer;
  layer.spec.type = "rotary";
  layer.sources = {base};
  layer.in = layer.out = layers_.shape_of(base);
  layer.node = label;
  layer.rotary = std::make_shared<const Rotary>(std::move(rotary));
  const auto added = layers_.add(std::move(layer), {}, {});  // cannot fail: it puts nothing in another order
  const std::int32_t made = added->chunks[0].base;
  Stream y = x;
  for (Chunk& chunk : y.chunks) chunk.base = made;
  return y;
}

Result<Stream> TableParts::turned_by(const OperatorNode& n, const Stream& x, std::size_t axis, const HeadTables& by) {
  const std::size_t tokens = x.shape[axis];
  if (by.cosines->shape.size() < 2 || by.cosines->shape != by.sines->shape)
    return fail(Errc::corrupt, "tables of other shapes");
  const std::size_t pairs = by.cosines->shape.back(), rows = by.cosines->count() / std::max<std::size_t>(pairs, 1);
  WEFT_TRY(const std::int64_t turning, integer_of(n.node, "rotary_embedding_dim", 0));
  const bool is_open = by.positions.empty();
  if ((!is_open && by.positions.size() != tokens) || pairs == 0 || 2 * pairs > x.shape.back() ||
      (turning != 0 && static_cast<std::size_t>(turning) != 2 * pairs))
    return fail(Errc::unsupported, "tables " + to_string(by.cosines->shape) + " for " + to_string(x.shape) + " at " +
                                       std::to_string(by.positions.size()) + " positions");
  WEFT_TRY(const std::vector<double> c, reals_of(*by.cosines));
  WEFT_TRY(const std::vector<double> s, reals_of(*by.sines));
  const std::int64_t first = is_open ? 0 : by.positions[0];
  for (std::size_t t = 0; t < by.positions.size(); ++t) {
    const std::int64_t position = by.positions[t];
    if (position < 0 || static_cast<std::size_t>(position) >= rows)
      return fail(Errc::corrupt, "position " + std::to_string(position) + " of tables " + to_string(by.cosines->shape));
    if (position != first + static_cast<std::int64_t>(t))
      return fail(Errc::unsupported, "positions that are not in a row");
  }
  // Of positions further on, those before them say more of the turns.
  constexpr std::size_t kMostLookedAt = 1024;
  const std::size_t looked_at =
      std::min(rows, is_open ? kMostLookedAt : std::min(static_cast<std::size_t>(first) + tokens, kMostLookedAt));
  TurnTables tables{looked_at, pairs, {}, {}};
  for (std::size_t position = 0; position < looked_at; ++position) {
    const auto row = static_cast<std::ptrdiff_t>(position * pairs);
    tables.cosines.insert(tables.cosines.end(), c.begin() + row, c.begin() + row + static_cast<std::ptrdiff_t>(pairs));
    tables.sines.insert(tables.sines.end(), s.begin() + row, s.begin() + row + static_cast<std::ptrdiff_t>(pairs));
  }
  auto turns = find_turns(tables, by.is_half);
  if (!turns) return fail(Errc::unsupported, "tables that are no cosines and sines of the positions 0 on");
  turns->first = is_open ? std::nullopt : std::optional(static_cast<std::size_t>(first));
  if (places_of(x).empty() || layers_.at(x.chunks[0].base).rotary)
    return fail(Errc::unsupported, "of values that are no heads of one projection");
  return turned(x, axis, *turns, n.label);
}

Result<Operators::Values> Operators::rotary_embedding(const Node& n) {
  const bool is_foreign = !n.node.domain.empty();  // com.microsoft's has its inputs in another order
  WEFT_TRY(Stream x, stream(n, 0));
  HeadTables tables;
  WEFT_TRY(tables.cosines, constant(n, is_foreign ? 2 : 1));
  WEFT_TRY(tables.sines, constant(n, is_foreign ? 3 : 2));
  WEFT_TRY(const std::int64_t interleaves, integer_of(n.node, "interleaved", 0));
  tables.is_half = interleaves == 0;
  WEFT_TRY(const std::int64_t heads, integer_of(n.node, "num_heads", 0));
  WEFT_TRY(const double scale, real_of(n.node, "scale", 1));
  if (scale != 1) return fail(Errc::unsupported, "scale " + std::to_string(scale));
  const Shape whole = x.shape;
  if (whole.size() == 3 && heads > 0 && whole[2] % static_cast<std::size_t>(heads) == 0)
    x.shape = {whole[0], whole[1], static_cast<std::size_t>(heads), whole[2] / static_cast<std::size_t>(heads)};
  if (x.shape.size() != 4 || x.shape[0] != 1)
    return fail(Errc::unsupported, "of " + to_string(whole) + "; expected one sample of heads, or num_heads");
  const std::size_t axis = whole.size() == 3 ? 1 : 2, tokens = x.shape[axis];
  std::vector<std::int64_t>& positions = tables.positions;
  const std::size_t at = is_foreign ? 1 : 3;
  const bool is_open = n.has(at) && whole_port(layers_, n.inputs[at]);
  if (n.has(at) && !is_open) {
    WEFT_TRY(const Constant* const given, constant(n, at));
    WEFT_TRY(positions, integers_of(*given));
  }
  if (positions.empty() && !is_open) positions = {0};
  if (positions.size() == 1)
    for (std::size_t t = 1; t < tokens; ++t) positions.push_back(positions[0] + static_cast<std::int64_t>(t));
  WEFT_TRY(Stream y, tables_.turned_by(n, x, axis, tables));
  y.shape = whole;
  return Values{std::move(y)};
}

Result<Operators::Values> Operators::added_positions(const Node& n, Stream x, const Constant& table) {
  const Shape seen = tokens_of(x.shape), after = x.shape;
  Constant rows = table;
  rows.shape = seen;
  return add(n, "position_embedding", {{"positions", static_cast<double>(seen[0])}}, std::move(x), seen, seen, after,
             {{"table", {std::move(rows), true}}});
}

}  // namespace weft::models::onnx
