// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/onnx_layers.hpp"

#include <algorithm>
#include <utility>

namespace weft::models::onnx {
namespace {

constexpr std::size_t kMostRuns = 65'536;

/// Puts a chunk behind others, as a part of the last one where it goes on there.
void append(std::vector<Chunk>& chunks, Chunk chunk) {
  if (chunk.count == 0) return;
  if (!chunks.empty()) {
    Chunk& last = chunks.back();
    if (last.base == chunk.base && (chunk.base == Chunk::kZeros || last.offset + last.count == chunk.offset)) {
      last.count += chunk.count;
      return;
    }
  }
  chunks.push_back(chunk);
}

/// Runs of a `select`: places that go on by the same step.
struct Runs {
  std::vector<double> first, count, step;

  void add(std::size_t from, std::size_t size, bool is_zero) {
    const auto at = static_cast<double>(from);
    if (size == 1 && !is_zero && !first.empty()) {
      const double end = first.back() + step.back() * (count.back() - 1);
      if (count.back() == 1 && at != first.back()) {
        step.back() = at - end;
        count.back() = 2;
        return;
      }
      if (count.back() > 1 && step.back() != 0 && at == end + step.back()) {
        ++count.back();
        return;
      }
    }
    first.push_back(at);
    count.push_back(static_cast<double>(size));
    step.push_back(is_zero ? 0.0 : 1.0);
  }
};

}  // namespace

std::int32_t LayerList::add_port(std::string name, Shape shape) {
  ports_.push_back({std::move(name), std::move(shape)});
  return ~static_cast<std::int32_t>(ports_.size() - 1);
}

const Shape& LayerList::shape_of(std::int32_t base) const noexcept {
  return base < 0 ? ports_[static_cast<std::size_t>(~base)].shape : layers_[static_cast<std::size_t>(base)].out;
}
std::size_t LayerList::size_of(std::int32_t base) const noexcept { return elements_of(shape_of(base)); }

Result<std::int32_t> LayerList::whole(const Stream& stream, const std::string& node) {
  const std::vector<Chunk>& chunks = stream.chunks;
  if (chunks.size() == 1 && chunks[0].base != Chunk::kZeros && chunks[0].offset == 0 &&
      chunks[0].count == size_of(chunks[0].base))
    return chunks[0].base;
  // Its bases, each once, one after the other; then the chunks of these.
  std::vector<std::int32_t> bases;
  std::map<std::int32_t, std::size_t> begins;
  std::size_t width = 0;
  for (const Chunk& chunk : chunks)
    if (chunk.base != Chunk::kZeros && begins.emplace(chunk.base, width).second) {
      bases.push_back(chunk.base);
      width += size_of(chunk.base);
    }
  if (bases.empty()) return fail(Errc::unsupported, "a value that is nothing but zeros");
  Runs runs;
  std::size_t made = 0;
  for (const Chunk& chunk : chunks) {
    const bool is_zero = chunk.base == Chunk::kZeros;
    runs.add(is_zero ? width : begins[chunk.base] + chunk.offset, chunk.count, is_zero);
    made += chunk.count;
  }
  if (runs.first.size() > kMostRuns) return fail(Errc::too_large, "values in an order of more than 65536 parts");
  FoundLayer layer;
  layer.node = node;
  layer.sources = bases;
  layer.in = bases.size() == 1 ? shape_of(bases[0]) : Shape{width};
  layer.out = {made};
  if (runs.first.size() == 1 && runs.first[0] == 0 && made == width) {
    layer.spec.type = "identity";  // just one behind the other
  } else {
    layer.spec.type = "select";
    const bool has_steps = std::any_of(runs.step.begin(), runs.step.end(), [](double step) { return step != 1; });
    layer.spec.options = {{"first", runs.first}, {"count", runs.count}};
    if (has_steps) layer.spec.options["step"] = runs.step;
  }
  if (bases.size() > 1)
    for (std::int32_t& base : layer.sources) {
      if (shape_of(base).size() == 1) continue;
      FoundLayer flat;
      flat.spec.type = "identity";
      flat.node = node;
      flat.sources = {base};
      flat.in = flat.out = {size_of(base)};
      layers_.push_back(std::move(flat));
      base = static_cast<std::int32_t>(layers_.size() - 1);
    }
  layers_.push_back(std::move(layer));
  return static_cast<std::int32_t>(layers_.size() - 1);
}

Result<Stream> LayerList::add(FoundLayer layer, std::vector<Stream> sources, Shape shape_after) {
  for (const Stream& source : sources) {
    WEFT_TRY(const std::int32_t base, whole(source, layer.node));
    layer.sources.push_back(base);
  }
  layers_.push_back(std::move(layer));
  return all_of(static_cast<std::int32_t>(layers_.size() - 1), std::move(shape_after));
}

namespace {

bool is_linear(const FoundLayer& layer) {
  const std::string& type = layer.spec.type;
  return type == "dense" || type.starts_with("conv");
}

/// A factor and a summand for each output go into a matrix and its bias. False: this layer cannot take them.
bool take_in(FoundLayer& layer, const FoundLayer& part) {
  const bool is_dense = layer.spec.type == "dense";
  if (part.part != (is_dense ? FoundLayer::Part::last_axis : FoundLayer::Part::channels) &&
      !(is_dense && layer.out.size() == 1))
    return false;
  const std::size_t outputs = is_dense ? layer.out.back() : layer.out.front();
  const auto factor = part.weights.find("factor"), summand = part.weights.find("bias");
  if (factor != part.weights.end()) {
    if (layer.spec.type.starts_with("conv_transposed")) return false;
    Weight& weight = layer.weights.at("weight");
    if (takes_codes(weight)) return false;
    const auto factors = reals_of(factor->second.values);
    auto values = reals_of(weight.values);
    if (!factors || !values || factors->size() != outputs) return false;
    const std::size_t inputs = values->size() / outputs;
    for (std::size_t i = 0; i < values->size(); ++i)
      (*values)[i] *= (*factors)[weight.is_transposed ? i % outputs : i / inputs];
    weight.values = reals("float32", weight.values.shape, *values);
  }
  std::vector<double> bias(outputs, 0.0);
  if (const auto own = layer.weights.find("bias"); own != layer.weights.end()) {
    const auto values = reals_of(own->second.values);
    const auto factors =
        factor != part.weights.end() ? reals_of(factor->second.values) : std::vector<double>(outputs, 1);
    if (!values || !factors) return false;
    for (std::size_t i = 0; i < outputs; ++i) bias[i] = (*values)[i] * (*factors)[i];
  } else if (factor == part.weights.end() && summand != part.weights.end()) {
    layer.weights["bias"] = summand->second;  // every bit of it
    layer.spec.options.erase("bias");
    return true;
  }
  const auto added = summand != part.weights.end() ? reals_of(summand->second.values) : std::vector<double>(outputs, 0);
  if (!added || added->size() != outputs) return false;
  for (std::size_t i = 0; i < outputs; ++i) bias[i] += (*added)[i];
  layer.weights["bias"].values = reals("float32", {outputs}, bias);
  layer.spec.options.erase("bias");
  return true;
}

/// A dense layer becomes the output matrix of the attention before it, a norm before that its inner one, and a summand
/// behind it its bias.
bool joins_attention(FoundLayer& attention, const FoundLayer& layer) {
  if (attention.spec.type != "attention" || layer.in != attention.out) return false;
  if (attention.has_open_output && layer.spec.type == "rms_norm" && !attention.weights.contains("out_gain")) {
    attention.weights["out_gain"] = layer.weights.at("gain");
    attention.spec.options["out_norm"] = std::string("rms");
    attention.spec.options["out_epsilon"] = layer.spec.options.at("epsilon");
    return true;
  }
  if (attention.has_open_output && layer.spec.type == "dense") {
    attention.weights["output"] = layer.weights.at("weight");
    attention.spec.out = layer.spec.out;
    attention.out = layer.out;
    attention.has_open_output = false;
    if (const auto bias = layer.weights.find("bias"); bias != layer.weights.end()) {
      attention.weights["output_bias"] = bias->second;
      attention.spec.options["out_bias"] = true;
    }
    return true;
  }
  if (attention.has_open_output || layer.part != FoundLayer::Part::last_axis || layer.weights.contains("factor") ||
      attention.weights.contains("output_bias"))
    return false;
  attention.weights["output_bias"] = layer.weights.at("bias");
  attention.spec.options["out_bias"] = true;
  return true;
}

}  // namespace

std::vector<std::int32_t> LayerList::merge(const std::vector<std::int32_t>& kept) {
  std::vector<std::size_t> readers(layers_.size());
  const auto read = [&](std::int32_t base) {
    if (base >= 0) ++readers[static_cast<std::size_t>(base)];
  };
  for (const FoundLayer& layer : layers_) std::for_each(layer.sources.begin(), layer.sources.end(), read);
  std::for_each(kept.begin(), kept.end(), read);
  std::vector<std::int32_t> becomes(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    becomes[i] = static_cast<std::int32_t>(i);
    FoundLayer& layer = layers_[i];
    for (std::int32_t& source : layer.sources)
      if (source >= 0) source = becomes[static_cast<std::size_t>(source)];
    if (layer.sources.size() != 1 || layer.sources[0] < 0) continue;
    const auto before = static_cast<std::size_t>(layer.sources[0]);
    FoundLayer& other = layers_[before];
    if (readers[before] != 1) continue;
    if (joins_attention(other, layer)) {
      // Whoever read this one reads the one before.
      readers[before] = readers[i];
      becomes[i] = layer.sources[0];
      layer.spec.type.clear();
      continue;
    }
    if (!is_linear(other) || other.spec.options.contains("activation")) continue;
    if (layer.part != FoundLayer::Part::none) {
      if (layer.in != other.out || !take_in(other, layer)) continue;
    } else if (layer.spec.type == "activation") {
      other.spec.options["activation"] = layer.spec.options["activation"];
    } else {
      continue;
    }
    // Whoever read this one reads the one before.
    readers[before] = readers[i];
    becomes[i] = layer.sources[0];
    layer.spec.type.clear();
  }
  return becomes;
}

Stream moved_stream(const Moved& move, const std::vector<const Stream*>& from) {
  Stream stream{move.shape, {}};
  if (move.is_same_order) {
    stream.chunks = from[0]->chunks;
    return stream;
  }
  std::vector<std::pair<std::size_t, const Chunk*>> begins;  // of each chunk among all values
  std::size_t at = 0;
  for (const Stream* const one : from)
    for (const Chunk& chunk : one->chunks) {
      begins.emplace_back(at, &chunk);
      at += chunk.count;
    }
  for (const std::int64_t place : move.places) {
    if (place < 0) {
      append(stream.chunks, {Chunk::kZeros, 0, 1});
      continue;
    }
    const auto wanted = static_cast<std::size_t>(place);
    const auto behind = std::upper_bound(begins.begin(), begins.end(), wanted,
                                         [](std::size_t value, const auto& row) { return value < row.first; });
    const auto& [begin, chunk] = *std::prev(behind);
    append(stream.chunks, {chunk->base, chunk->base == Chunk::kZeros ? 0 : chunk->offset + wanted - begin, 1});
  }
  return stream;
}

}  // namespace weft::models::onnx
