// SPDX-License-Identifier: Apache-2.0

// Attention out of its parts: softmax(scale q k^T + mask) v, where q, k and v are heads of projections of the same
// values. Which element is which is seen from where it stands in the projection's output.

#include "models/onnx/internal/onnx_operators.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::models::onnx {

using Kind = Pattern::Kind;

namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 24;
constexpr double kHidden = -1e4;  // and less: a score that no softmax sees

/// Rows [first, first + count) of a matrix.
Weight rows_of(const Weight& from, std::size_t first, std::size_t count, std::size_t out, std::size_t in) {
  if (first == 0 && count == out) return from;
  Moved move{from.is_transposed ? Shape{in, count} : Shape{count, in}};
  for (std::size_t i = 0; i < move.shape[0]; ++i)
    for (std::size_t j = 0; j < move.shape[1]; ++j)
      move.places.push_back(static_cast<std::int64_t>(from.is_transposed ? i * out + first + j : (first + i) * in + j));
  const Operand operand{&from.values.shape, &from.values};
  return {moved(move, {&operand, 1}, 1), from.is_transposed};
}
Constant part_of_bias(const Constant& bias, std::size_t first, std::size_t count) {
  Moved move{{count}};
  for (std::size_t i = 0; i < count; ++i) move.places.push_back(static_cast<std::int64_t>(first + i));
  const Operand operand{&bias.shape, &bias};
  return moved(move, {&operand, 1}, 1);
}

/// True where key j is seen by query i, of [queries, keys] values; keys of earlier runs come first.
struct Sight {
  bool is_causal = false;
  std::size_t window = 0;
};
std::optional<Sight> sight_of(const std::vector<bool>& seen, std::size_t queries, std::size_t keys) {
  if (std::all_of(seen.begin(), seen.end(), [](bool one) { return one; })) return Sight{};
  std::size_t window = 0;  // what the last query sees
  for (std::size_t j = 0; j < keys; ++j) window += seen[(queries - 1) * keys + j];
  for (std::size_t i = 0; i < queries; ++i)
    for (std::size_t j = 0; j < keys; ++j) {
      const std::size_t own = keys - queries + i;
      if (seen[i * keys + j] != (j <= own && own - j < window)) return std::nullopt;
    }
  return Sight{true, window == keys ? 0 : window};
}

/// Scores [.., queries, keys] that a constant beside them leaves, one by one; nothing: it does something else to one.
Result<std::optional<std::vector<bool>>> seen_by(const Constant& mask, const AttentionParts& parts, bool is_condition) {
  const std::size_t keys = parts.keys();
  if (mask.count() != parts.tokens * keys || mask.shape.size() < 2 || mask.shape.back() != keys)
    return std::optional<std::vector<bool>>();
  std::vector<bool> seen;
  if (is_condition) {
    WEFT_TRY(const auto values, integers_of(mask));
    for (const std::int64_t value : values) seen.push_back(value != 0);
    return std::optional(std::move(seen));
  }
  WEFT_TRY(const auto values, reals_of(mask));
  for (const double value : values) {
    if (value != 0 && !(value <= kHidden)) return std::optional<std::vector<bool>>();
    seen.push_back(value == 0);
  }
  return std::optional(std::move(seen));
}

Result<AttentionParts> seen_where(AttentionParts parts, const std::vector<bool>& seen) {
  if (std::find(seen.begin(), seen.end(), true) == seen.end())
    return fail(Errc::unsupported, "attention with a mask that hides every key from every query");
  const auto sight = sight_of(seen, parts.tokens, parts.keys());
  if (!sight) return fail(Errc::unsupported, "attention with a mask that is neither causal nor a window");
  parts.is_causal = parts.is_causal || sight->is_causal;
  if (sight->window != 0) parts.window = sight->window;
  return parts;
}

void set_turns(const Turns& turns, std::size_t head_dim, mesh::Options& options) {
  options["rope"] = std::string(turns.is_half ? "half" : "interleaved");
  options["rope_theta"] = turns.theta;
  if (turns.dims != head_dim) options["rope_dims"] = static_cast<double>(turns.dims);
  if (!turns.divisors.empty()) options["rope_divisors"] = turns.divisors;
  if (turns.gain != 1) options["rope_gain"] = turns.gain;
}

/// Places of values in the layer that makes them, and which element of its head each has turned as; -1: none.
struct HeadPlaces {
  std::int32_t base = 0;
  std::vector<std::size_t> places;
  std::vector<std::int32_t> elements;
  std::vector<std::uint32_t> positions;
  std::optional<Turns> turns;
};
std::optional<HeadPlaces> head_places(const LayerList& layers, const Stream& stream) {
  HeadPlaces found;
  const auto root = [&](std::int32_t base) {
    return base >= 0 && layers.at(base).rotary ? layers.at(base).sources[0] : base;
  };
  found.base = root(stream.chunks[0].base);
  found.places.reserve(elements_of(stream.shape));
  for (const Chunk& chunk : stream.chunks) {
    if (root(chunk.base) != found.base) return std::nullopt;
    const Rotary* const rotary = chunk.base == found.base ? nullptr : layers.at(chunk.base).rotary.get();
    for (std::size_t i = chunk.offset; i < chunk.offset + chunk.count; ++i) {
      found.places.push_back(i);
      found.elements.push_back(rotary ? rotary->elements[i] : -1);
      found.positions.push_back(rotary ? rotary->positions[i] : 0);
    }
    if (!rotary) continue;
    if (found.turns && !(*found.turns == rotary->turns)) return std::nullopt;
    found.turns = rotary->turns;
  }
  return found;
}

}  // namespace

Result<AttentionParts> seen_through(AttentionParts parts, const Constant& mask, bool is_condition) {
  WEFT_TRY(const auto seen, seen_by(mask, parts, is_condition));
  if (!seen)
    return fail(Errc::unsupported,
                "attention with a mask " + to_string(mask.shape) + " of other numbers than 0 and -1e4 or less");
  return seen_where(std::move(parts), *seen);
}

std::optional<Operators::Heads> Operators::heads_of(const Stream& stream, bool is_transposed,
                                                    const Shape& batch) const {
  const Shape& shape = stream.shape;
  if (shape.size() < 3 || stream.chunks.empty() || elements_of(shape) > kMostElements) return std::nullopt;
  const std::vector<std::size_t> spread = places_within(Shape(shape.begin(), shape.end() - 2), batch);
  const std::size_t heads = spread.size();
  const std::size_t tokens = shape[shape.size() - (is_transposed ? 1 : 2)],
                    dim = shape[shape.size() - (is_transposed ? 2 : 1)];
  const std::int32_t base = stream.chunks[0].base;
  if (heads == 0 || base < 0) return std::nullopt;
  const auto projection = projection_of(layers_.at(base).rotary ? layers_.at(base).sources[0] : base);
  const auto places = projection ? head_places(layers_, stream) : std::nullopt;
  if (!places) return std::nullopt;
  const auto index = [&](std::size_t h, std::size_t t, std::size_t d) {
    return is_transposed ? (spread[h] * dim + d) * tokens + t : (spread[h] * tokens + t) * dim + d;
  };
  const auto place = [&](std::size_t h, std::size_t t, std::size_t d) { return places->places[index(h, t, d)]; };
  std::size_t repeats = 1;
  while (repeats < heads && place(repeats, 0, 0) == place(0, 0, 0)) ++repeats;
  if (heads % repeats != 0 || layers_.size_of(places->base) != tokens * projection->out) return std::nullopt;
  const std::size_t first = place(0, 0, 0), kv_heads = heads / repeats, rows = kv_heads * dim;
  // Inputs as int8 hang on codes, which parts of a matrix do not keep.
  if (takes_codes(projection->weight) && rows != projection->out) return std::nullopt;
  if (first + rows > projection->out || (projection->gain && projection->gain->count() != dim)) return std::nullopt;
  const std::size_t dims = places->turns ? places->turns->dims : 0;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t d = 0; d < dim; ++d) {
        const std::size_t i = index(h, t, d);
        if (places->places[i] != first + t * projection->out + h / repeats * dim + d) return std::nullopt;
        if (places->elements[i] != (d < dims ? static_cast<std::int32_t>(d) : -1)) return std::nullopt;
        if (d < dims && places->positions[i] != t) return std::nullopt;
      }
  Heads found{*projection, heads, kv_heads, dim, tokens, places->turns};
  found.rows.weight = rows_of(projection->weight, first, rows, projection->out, projection->in);
  if (projection->bias) found.rows.bias = part_of_bias(*projection->bias, first, rows);
  found.rows.out = rows;
  return found;
}

std::optional<Pattern> Operators::scores_of(const Value& query, const Value& key) const {
  const auto part = [](const Value& value) -> std::pair<const Stream*, double> {
    if (const auto* const x = std::get_if<Stream>(&value)) return {x, 1};
    const auto* const pattern = std::get_if<Pattern>(&value);
    if (pattern && pattern->kind == Kind::scaled) return {&pattern->x, pattern->factor};
    return {nullptr, 1};
  };
  const auto [q, q_scale] = part(query);
  const auto [k, k_scale] = part(key);
  if (!q || !k || q->shape.size() < 3) return std::nullopt;
  const Shape batch(q->shape.begin(), q->shape.end() - 2);
  auto queries = heads_of(*q, false, batch), keys = heads_of(*k, true, batch);
  if (!queries || !keys || queries->kv_heads != queries->heads || queries->heads != keys->heads ||
      queries->turns != keys->turns || queries->rows.gain.has_value() != keys->rows.gain.has_value() ||
      queries->rows.epsilon != keys->rows.epsilon || queries->head_dim != keys->head_dim ||
      queries->tokens != keys->tokens || queries->rows.from != keys->rows.from || queries->rows.in != keys->rows.in)
    return std::nullopt;
  Pattern made{Kind::scores, *q};
  made.x.shape.back() = queries->tokens;
  AttentionParts parts;
  parts.scale = q_scale * k_scale * queries->rows.scale * keys->rows.scale;
  parts.heads = queries->heads, parts.kv_heads = keys->kv_heads;
  parts.head_dim = queries->head_dim, parts.tokens = queries->tokens;
  parts.turns = queries->turns;
  parts.query = std::move(queries->rows), parts.key = std::move(keys->rows);
  made.attention = std::make_shared<const AttentionParts>(std::move(parts));
  return made;
}

Result<Operators::Values> Operators::attention(const Node& n, const AttentionParts& parts, const Projection& value,
                                               std::size_t value_heads, Shape shape) {
  const std::size_t in = parts.query.in, tokens = parts.tokens, dim = parts.head_dim, width = parts.heads * dim;
  const double scale = parts.scale * parts.last * (parts.is_bent ? parts.cap : 1);
  if (!(scale > 0 && std::isfinite(scale)))
    return fail(Errc::unsupported,
                "attention whose scores have the factor " + std::to_string(scale) + ", expected a finite one above 0");
  if (value.from != parts.query.from || value.in != in || value_heads != parts.kv_heads || value.scale != 1 ||
      value.gain)
    return fail(Errc::unsupported,
                "attention whose values are of another source, number of heads or scale than its keys");
  const std::size_t past = parts.past.value_or(0);
  if (past != 0 && tokens > 1 && !parts.is_causal)
    return fail(Errc::unsupported, "attention with keys of earlier runs in which tokens see later ones");
  if (parts.turns && parts.turns->first.value_or(past) != past)
    return fail(Errc::unsupported, "rotary positions from " + std::to_string(parts.turns->first.value_or(past)) +
                                       " on, behind " + std::to_string(past) + " keys of earlier runs");
  if (parts.turns && !parts.turns->first && past == 0)
    return fail(Errc::unsupported, "rotary positions that an input says, without keys of earlier runs");
  FoundLayer layer;
  layer.spec.type = "attention";
  layer.spec.out = width;
  layer.spec.options = {{"heads", static_cast<double>(parts.heads)}, {"kv_heads", static_cast<double>(parts.kv_heads)},
                        {"head_dim", static_cast<double>(dim)},      {"scale", parts.is_bent ? parts.scale : scale},
                        {"causal", parts.is_causal || past != 0},    {"out_bias", false}};
  if (parts.is_bent && !(std::fabs(parts.last * parts.cap - 1) <= 1e-5))
    return fail(Errc::unsupported, "attention with a cap of scores whose two factors are not each other's inverse");
  if (parts.is_bent) layer.spec.options["score_cap"] = parts.cap;
  if (parts.turns) set_turns(*parts.turns, dim, layer.spec.options);
  if (parts.query.gain) {
    layer.spec.options["qk_norm"] = std::string("rms");
    layer.spec.options["epsilon"] = parts.query.epsilon;
    layer.weights["query_gain"] = {*parts.query.gain};
    layer.weights["key_gain"] = {*parts.key.gain};
  }
  if (past != 0) layer.spec.options["context"] = static_cast<double>(parts.keys());
  if (parts.window != 0) layer.spec.options["window"] = static_cast<double>(parts.window);
  layer.in = tokens == 1 ? Shape{in} : Shape{tokens, in};
  layer.out = tokens == 1 ? Shape{width} : Shape{tokens, width};
  layer.node = n.label;
  const bool has_bias = parts.query.bias || parts.key.bias || value.bias;
  layer.spec.options["bias"] = has_bias;
  for (const auto& [name, projection] :
       {std::pair("query", &parts.query), std::pair("key", &parts.key), std::pair("value", &value)}) {
    layer.weights[name] = projection->weight;
    if (has_bias)
      layer.weights[std::string(name) + "_bias"] = {
          projection->bias ? *projection->bias
                           : reals("float32", {projection->out}, std::vector<double>(projection->out, 0))};
  }
  // The matrix behind it, if any, takes this one's place.
  std::vector<double> identity(width * width);
  for (std::size_t i = 0; i < width; ++i) identity[i * width + i] = 1;
  layer.weights["output"] = {reals("float32", {width, width}, identity)};
  layer.has_open_output = true;
  WEFT_TRY(const Stream made, layers_.add(std::move(layer), {layers_.all_of(parts.query.from, {})}, {}));
  Stream heads{std::move(shape), {}};
  for (std::size_t h = 0; h < parts.heads; ++h)
    for (std::size_t t = 0; t < tokens; ++t) heads.chunks.push_back({made.chunks[0].base, t * width + h * dim, dim});
  if (parts.heads == 1 || tokens == 1) heads.chunks = made.chunks;
  return Values{std::move(heads)};
}

Result<std::optional<Operators::Values>> Operators::attention_part(const Node& n) {
  const std::string_view type = n.node.type;
  const auto none = std::optional<Values>();
  const auto* const part = std::get_if<Pattern>(&n.inputs[0]);
  const Pattern* const scores = part && part->kind == Kind::scores ? part : nullptr;
  if (type == "MatMul" && n.has(1) && part && part->kind == Kind::shares) {
    const auto* const value = std::get_if<Stream>(&n.inputs[1]);
    const AttentionParts& parts = *part->attention;
    const Shape& square = part->x.shape;
    const auto heads = value ? heads_of(*value, false, Shape(square.begin(), square.end() - 2)) : std::nullopt;
    if (!heads || heads->turns || heads->heads != parts.heads || heads->head_dim != parts.head_dim ||
        heads->tokens != parts.tokens)
      return fail(Errc::unsupported, "attention whose values are no heads of a projection as its keys are");
    Shape after = square;
    after.back() = heads->head_dim;
    WEFT_TRY(Values made, attention(n, parts, heads->rows, heads->kv_heads, std::move(after)));
    return std::optional(std::move(made));
  }
  if (type == "MatMul" && n.has(1) && !std::holds_alternative<Constant>(n.inputs[1])) {
    auto made = scores_of(n.inputs[0], n.inputs[1]);
    if (made) return std::optional(Values{*std::move(made)});
    return none;
  }
  if (type == "Tanh" && scores && !scores->attention->is_bent) {
    AttentionParts parts = *scores->attention;
    parts.is_bent = true;
    Pattern made = *scores;
    made.attention = std::make_shared<const AttentionParts>(std::move(parts));
    return std::optional(Values{std::move(made)});
  }
  if (type == "Softmax" && scores) {
    WEFT_TRY(const std::int64_t axis, integer_of(n.node, "axis", opset_ < 13 ? 1 : -1));
    const auto rank = static_cast<std::int64_t>(scores->x.shape.size());
    if (axis != -1 && axis != rank - 1)
      return fail(Errc::unsupported, "attention whose softmax is of another axis than the keys'");
    Pattern made = *scores;
    made.kind = Kind::shares;
    return std::optional(Values{std::move(made)});
  }
  const auto with_parts = [](const Pattern& of, AttentionParts parts) {
    Pattern made = of;
    made.attention = std::make_shared<const AttentionParts>(std::move(parts));
    return std::optional(Values{std::move(made)});
  };
  if (type == "Add" && n.has(1))
    for (const auto& [a, b] : {std::pair(&n.inputs[0], &n.inputs[1]), std::pair(&n.inputs[1], &n.inputs[0])}) {
      const auto* const of = std::get_if<Pattern>(a);
      const auto* const mask = std::get_if<Constant>(b);
      if (!of || of->kind != Kind::scores || !mask) continue;
      WEFT_TRY(AttentionParts parts, seen_through(*of->attention, *mask, false));
      return with_parts(*of, std::move(parts));
    }
  if (type == "Where" && n.has(1) && n.has(2)) {
    const auto* const condition = std::get_if<Constant>(&n.inputs[0]);
    for (const bool is_first : {true, false}) {
      const auto* const of = std::get_if<Pattern>(&n.inputs[is_first ? 1 : 2]);
      const auto* const hidden = std::get_if<Constant>(&n.inputs[is_first ? 2 : 1]);
      if (!condition || !of || of->kind != Kind::scores || !hidden) continue;
      const auto number = scalar_of(*hidden);
      WEFT_TRY(auto seen, seen_by(*condition, *of->attention, true));
      if (!seen || !number || !(*number <= kHidden))
        return fail(Errc::unsupported, "attention with a mask that is not known");
      if (!is_first) seen->flip();
      WEFT_TRY(AttentionParts parts, seen_where(*of->attention, *seen));
      return with_parts(*of, std::move(parts));
    }
  }
  return none;
}

}  // namespace weft::models::onnx
