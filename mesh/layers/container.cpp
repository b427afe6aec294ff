// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/container.hpp"

#include "core/cache_line.hpp"

#include <algorithm>
#include <optional>

namespace weft::mesh {

using kernels::ConstMatrixView;
using kernels::MatrixView;

namespace {

/// The key that a spec inside a container may not have, or an empty text.
std::string_view key_of_places(const LayerSpec& spec) {
  if (spec.neighbours != Neighbourhood::none) return "neighbours";
  if (spec.policy) return "policy";
  if (spec.device) return "device";
  if (!spec.shape.empty()) return "shape";
  if (spec.dtype != Dtype::float32) return "dtype";
  if (spec.granularity) return "granularity";
  if (spec.activations != Activations::int8) return "activations";
  if (spec.activation_dtype != Dtype::float32) return "activation_dtype";
  if (spec.gradient_dtype != Dtype::float32) return "gradient_dtype";
  if (spec.quantization_aware) return "qat";
  if (spec.rate_scale != 1.0f) return "rate_scale";
  if (spec.is_frozen) return "freeze";
  return {};
}

}  // namespace

const Shape& Container::Builder::shape_of(std::int32_t step) const noexcept {
  return step == kInput ? in_ : steps_[static_cast<std::size_t>(step)].layer->out_shape();
}

Result<Shape> Container::Builder::joined(Combine combine, std::span<const std::int32_t> sources,
                                         const std::string& key) const {
  return combined_shape(
      combine, sources.size(),
      [&](std::size_t i) {
        return sources[i] == kInput ? std::string("the container's input")
                                    : steps_[static_cast<std::size_t>(sources[i])].name;
      },
      [&](std::size_t i) -> const Shape& { return shape_of(sources[i]); },
      [&](std::string_view of) { return object_of(key) + "." + std::string(of); });
}

Result<std::vector<std::int32_t>> Container::Builder::sources_of(const LayerSpec& spec, const std::string& key,
                                                                 std::vector<std::int32_t> otherwise) const {
  if (spec.from.empty()) return otherwise;
  std::vector<std::int32_t> sources;
  for (std::size_t i = 0; i < spec.from.size(); ++i) {
    const std::string object = object_of(key) + ".from[" + std::to_string(i) + "]: ";
    const Source& source = spec.from[i];
    if (!source.is_port())
      return fail(Errc::unsupported, object + to_string(source) +
                                         " is a place; inside a container sources are names of siblings or \"input\"");
    if (source.port == "input") {
      sources.push_back(kInput);
      continue;
    }
    const auto found = std::find(names_.begin(), names_.end(), source.port);
    if (found == names_.end())
      return fail(Errc::unknown_name, object + "no layer before it in the container is named '" + source.port +
                                          "'; within a tick a layer reads only what stands before it");
    sources.push_back(static_cast<std::int32_t>(found - names_.begin()));
  }
  return sources;
}

Result<std::shared_ptr<const Layer>> Container::Builder::make(const LayerSpec& spec, const Shape& in,
                                                              const std::string& key) {
  const std::string object = object_of(key);
  if (spec.type != "shared") {
    LayerContext context = options_.context();
    ++context.depth;
    if (context.depth > kMaxContainerDepth)
      return fail(Errc::too_large,
                  object + ": containers nest at most " + std::to_string(kMaxContainerDepth) + " deep");
    // Steps draw from streams of their own: the key's second word is the container's, the first counts its steps.
    context.noise_key[0] += 0x9e3779b9u * static_cast<std::uint32_t>(steps_.size() + 1);
    WEFT_TRY(auto layer, make_layer(spec, in, object, std::move(context)));
    return std::shared_ptr<const Layer>(std::move(layer));
  }
  if (!spec.options.empty() || !spec.layers.empty())
    return fail(Errc::unknown_name, object + ": a shared layer is what the layer at " + to_string(spec.at) +
                                        " is; it has no options of its own");
  if (!options_.context().find_tied)
    return fail(Errc::unsupported, object + ": a shared layer needs a grid to find " + to_string(spec.at) + " in");
  auto owner = options_.context().find_tied(spec.at);
  if (!owner) return fail(std::move(owner).error().within(object + ".at"));
  if ((*owner)->in_shape() != in)
    return fail(Errc::shape_mismatch, object + ".at: the layer at " + to_string(spec.at) + " takes " +
                                          weft::to_string((*owner)->in_shape()) + ", not " + weft::to_string(in));
  if (!(*owner)->tied_to().empty())
    return fail(Errc::unsupported, object + ".at: the layer at " + to_string(spec.at) +
                                       " computes with shared weights itself; share their owner");
  return *owner;
}

Result<std::int32_t> Container::Builder::add(const LayerSpec& spec, const std::string& key,
                                             std::vector<std::int32_t> from) {
  const std::string object = object_of(key);
  if (const std::string_view own = key_of_places(spec); !own.empty())
    return fail(Errc::unsupported, object + "." + std::string(own) + ": only layers of the grid have it; state '" +
                                       std::string(own) + "' on the container");
  if (spec.name == "input" || std::find(names_.begin(), names_.end(), spec.name) != names_.end()) {
    if (!spec.name.empty()) return fail(Errc::duplicate_name, object + ".name: '" + spec.name + "' is taken");
  }
  WEFT_TRY(std::vector<std::int32_t> sources, sources_of(spec, key, std::move(from)));
  const Combine combine = spec.type == "residual" ? Combine::add : spec.combine;
  if (spec.type == "residual" && sources.size() < 2)
    return fail(Errc::shape_mismatch,
                object + ".from: a residual sums at least two sources, not " + std::to_string(sources.size()));
  WEFT_TRY(Shape in, joined(combine, sources, key));
  if (!spec.view.empty()) {
    WEFT_TRY(const std::size_t has, volume(in));
    WEFT_TRY(const std::size_t sees, volume(spec.view));
    if (has != sees)
      return fail(Errc::shape_mismatch, object + ".view: " + weft::to_string(spec.view) + " has " +
                                            std::to_string(sees) + " values, the input " + weft::to_string(in) +
                                            " has " + std::to_string(has));
    in = spec.view;
  }
  WEFT_TRY(auto layer, make(spec, in, key));
  if (layer->out() == 0 || layer->out() > kMaxWidth)
    return fail(Errc::shape_mismatch, object + ": " + spec.type + " makes " + weft::to_string(layer->out_shape()) +
                                          ", outside [1, 16777216] values");
  if (layer->is_observer())
    return fail(Errc::unsupported,
                object + ": " + spec.type + " watches a layer of the grid, and so stands there itself");
  if (layer->vocabulary_size() != 0 && std::any_of(sources.begin(), sources.end(), [](auto s) { return s != kInput; }))
    return fail(Errc::unsupported, object + ".from: " + spec.type +
                                       " takes indices, and so reads the container's input, not a layer's output");
  std::optional<Coord> owner;
  if (spec.type == "shared") owner = spec.at;
  steps_.push_back({std::move(layer), std::move(sources), combine, key, owner});
  names_.push_back(spec.name);
  return static_cast<std::int32_t>(steps_.size() - 1);
}

Result<std::int32_t> Container::Builder::add(std::unique_ptr<Layer> layer, const std::string& key,
                                             std::vector<std::int32_t> from, Combine combine) {
  steps_.push_back({std::move(layer), std::move(from), combine, key, std::nullopt});
  names_.emplace_back();
  return static_cast<std::int32_t>(steps_.size() - 1);
}

Result<std::unique_ptr<Layer>> Container::Builder::finish() {
  if (steps_.empty())
    return fail(Errc::parse_failed, options_.object() + ".layers: a container holds at least one layer");
  std::vector<bool> is_read(steps_.size(), false);
  is_read.back() = true;
  for (const Step& step : steps_)
    for (const std::int32_t s : step.sources)
      if (s != kInput) is_read[static_cast<std::size_t>(s)] = true;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (!is_read[i])
      return fail(Errc::shape_mismatch, object_of(steps_[i].name) + ": no layer after it reads it; take it out, or " +
                                            "name it in a later layer's 'from'");
  return std::unique_ptr<Layer>(new Container(std::move(*this)));
}

Container::Container(Builder&& builder)
    : Layer(builder.in_, builder.steps_.back().layer->out_shape()), steps_(std::move(builder.steps_)) {
  places_.resize(steps_.size());
  place_values();
  place_parameters();
}

void Container::place_values() {
  std::size_t widest_x = 0, widest_scratch = 0, widest_gate = 0;
  const auto take = [](std::size_t& size, std::size_t width) {
    const Columns columns{size, width};
    size += padded(width);
    return columns;
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    Place& place = places_[i];
    const Layer& layer = *step.layer;
    const auto width_of = [&](std::int32_t s) {
      return s == kInput ? in() : steps_[static_cast<std::size_t>(s)].layer->out();
    };
    const auto features_of = [&](std::int32_t s) {
      return s == kInput ? in_shape().back() : steps_[static_cast<std::size_t>(s)].layer->out_shape().back();
    };
    const std::size_t first = width_of(step.sources[0]);
    place.junction = {step.combine, step.sources.size(), first / features_of(step.sources[0]), layer.in()};
    std::size_t offset = 0;
    for (const std::int32_t s : step.sources) {
      place.sources.push_back({offset, width_of(s)});
      offset += features_of(s);
    }
    if (step.sources.size() > 1) place.x = take(cache_size_, layer.in());
    if (!is_last(i)) place.y = take(cache_size_, layer.out());
    if (layer.needs_preactivation()) place.z = take(cache_size_, layer.out());
    place.cache = take(cache_size_, layer.cache_size());
    place.state = {state_size_, layer.state_size()};
    state_size_ += layer.state_size();
    if (!is_last(i)) place.dy = take(scratch_size_, layer.out());
    widest_x = std::max(widest_x, layer.in());
    widest_scratch = std::max(widest_scratch, layer.scratch_size());
    if (step.combine == Combine::gate) widest_gate = std::max(widest_gate, layer.in());
    workspace_size_ = std::max(workspace_size_, layer.workspace_size());
    const std::size_t limit = layer.vocabulary_size();
    if (limit != 0) vocabulary_size_ = vocabulary_size_ == 0 ? limit : std::min(vocabulary_size_, limit);
  }
  dx_ = take(scratch_size_, widest_x);
  split_ = take(scratch_size_, widest_x);
  gate_ = take(scratch_size_, widest_gate);
  inner_scratch_ = take(scratch_size_, widest_scratch);

  std::vector<bool> is_sent(steps_.size() + 1, false);
  for (std::size_t i = steps_.size(); i-- > 0;)
    for (const std::int32_t s : steps_[i].sources) {
      auto sent = is_sent[static_cast<std::size_t>(s + 1)];
      places_[i].is_first.push_back(!sent);
      is_sent[static_cast<std::size_t>(s + 1)] = true;
    }
}

void Container::place_parameters() {
  const auto borrow = [&](Coord owner) {
    const auto known = static_cast<std::size_t>(std::find(tied_to_.begin(), tied_to_.end(), owner) - tied_to_.begin());
    if (known == tied_to_.size()) tied_to_.push_back(owner);
    return static_cast<std::int32_t>(known);
  };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Layer& layer = *step.layer;
    const std::size_t count = layer.parameters().size();
    places_[i].slot = slots_.size();
    if (step.owner) {
      const std::int32_t owner = borrow(*step.owner);
      for (std::uint32_t p = 0; p < count; ++p) slots_.push_back({owner, p});
      continue;
    }
    const auto first = static_cast<std::uint32_t>(parameters_.size());
    for (ParameterSpec parameter : layer.parameters()) {
      // A layer's maps read fewer different values than it has parameters: numbers of two layers differ.
      if (parameter.map) parameter.map->reads += first;
      parameter.name = step.name + "." + parameter.name;
      parameters_.push_back(std::move(parameter));
    }
    if (layer.weight_slots().empty())
      for (std::uint32_t p = 0; p < count; ++p) slots_.push_back({WeightSlot::kOwn, first + p});
    for (WeightSlot slot : layer.weight_slots()) {
      if (slot.owner == WeightSlot::kOwn)
        slot.parameter += first;
      else
        slot.owner = borrow(layer.tied_to()[static_cast<std::size_t>(slot.owner)]);
      slots_.push_back(slot);
    }
  }
}

std::vector<Container::Inner> Container::inner() const {
  std::vector<Inner> all;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Inner own{step.name, is_last(i), is_last(i) ? 0 : places_[i].y.offset, step.layer->out()};
    const auto* const container = dynamic_cast<const Container*>(step.layer.get());
    if (!container) {
      all.push_back(own);
      continue;
    }
    for (Inner& deeper : container->inner()) {
      const std::size_t place = places_[i].cache.offset + deeper.place;
      all.push_back({step.name + "." + deeper.name, deeper.is_last && own.is_last, deeper.is_last ? own.place : place,
                     deeper.width});
    }
  }
  return all;
}

bool Container::learns_forward() const noexcept {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.layer->state_size() == 0 || step.layer->learns_forward(); });
}

// A state is one vector: displacements that one part has no use for would reach it too.
StateErrors Container::state_errors() const noexcept {
  StateErrors errors = StateErrors::none;
  for (const Step& step : steps_) {
    const StateErrors own = step.layer->state_errors();
    if (own == StateErrors::gradients) return own;
    if (own == StateErrors::any) errors = own;
  }
  return errors;
}

bool Container::updates_state_in_place() const noexcept {
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.layer->state_size() == 0 || step.layer->updates_state_in_place();
  });
}

bool Container::is_tokenwise() const noexcept {
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.layer->state_size() == 0 || tokenwise_state(*step.layer) != nullptr;
  });
}

/// Calls visit(state, offset) for each inner state. @pre is_tokenwise()
template <class Visit>
void Container::for_states(const Visit& visit) const {
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].layer->state_size() != 0) visit(*tokenwise_state(*steps_[i].layer), places_[i].state.offset);
}

void Container::cut(kernels::OpStream& stream, std::size_t tokens, float* state) const {
  for_states([&](const TokenwiseState& inner, std::size_t offset) { inner.cut(stream, tokens, state + offset); });
}

std::size_t Container::saved_size(std::size_t tokens) const noexcept {
  std::size_t size = 0;
  for_states([&](const TokenwiseState& inner, std::size_t) { size += inner.saved_size(tokens); });
  return size;
}

void Container::save(const float* state, std::size_t first, std::size_t tokens, float* to) const noexcept {
  for_states([&](const TokenwiseState& inner, std::size_t offset) {
    inner.save(state + offset, first, tokens, to);
    to += inner.saved_size(tokens);
  });
}

void Container::load(const float* from, std::size_t first, std::size_t tokens, float* state) const noexcept {
  for_states([&](const TokenwiseState& inner, std::size_t offset) {
    inner.load(from, first, tokens, state + offset);
    from += inner.saved_size(tokens);
  });
}

void Container::add_places(std::size_t first, std::size_t tokens, std::size_t offset,
                           std::vector<StatePlace>& to) const {
  for_states([&](const TokenwiseState& inner, std::size_t own) { inner.add_places(first, tokens, offset + own, to); });
}

double Container::multiply_adds() const noexcept {
  double sum = 0;
  for (const Step& step : steps_) sum += step.layer->multiply_adds();
  return sum;
}

std::uint64_t Container::weight_bytes_touched(const Encoding& encoding, std::size_t rows) const noexcept {
  std::uint64_t sum = 0;
  for (const Step& step : steps_)
    if (!step.owner) sum += step.layer->weight_bytes_touched(encoding, rows);
  return sum;
}

std::vector<std::size_t> Container::noise_states() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    for (const std::size_t place : steps_[i].layer->noise_states()) places.push_back(places_[i].state.offset + place);
  return places;
}

bool Container::has_training_mode() const noexcept {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.layer->has_training_mode(); });
}

bool Container::takes_samples() const noexcept {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.layer->takes_samples(); });
}

bool Container::counts_ticks() const noexcept {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.layer->counts_ticks(); });
}

ConstMatrixView Container::input_of(std::size_t step, const ConstMatrixView& x,
                                    const ConstMatrixView& cache) const noexcept {
  return steps_[step].sources.size() == 1 ? value(steps_[step].sources[0], x, cache) : part(cache, places_[step].x);
}

void Container::forward(kernels::OpStream& stream, const ForwardArgs& args) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Place& place = places_[i];
    if (steps_[i].sources.size() > 1)
      combine_sources(
          stream, place.junction, [&](std::size_t s) { return place.sources[s]; },
          [&](std::size_t s) { return value(steps_[i].sources[s], args.x, args.cache); }, part(args.cache, place.x));
    ForwardArgs own = args;
    own.weights.data = args.weights.data + place.slot;
    own.x = input_of(i, args.x, args.cache);
    own.z = part(args.cache, place.z);
    own.y = is_last(i) ? args.y : part(args.cache, place.y);
    own.cache = part(args.cache, place.cache);
    own.state = part(args.state, place.state);
    own.next_state = part(args.next_state, place.state);
    steps_[i].layer->forward(stream, own);
  }
}

void Container::backward(kernels::OpStream& stream, const BackwardArgs& args) const {
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const Step& step = steps_[i];
    const Place& place = places_[i];
    const ConstMatrixView x = input_of(i, args.x, args.cache);
    const bool is_wanted = args.dx.data || std::any_of(step.sources.begin(), step.sources.end(),
                                                       [](std::int32_t s) { return s != kInput; });
    BackwardArgs own = args;
    own.weights.data = args.weights.data + place.slot;
    own.x = x;
    own.z = part(args.cache, place.z);
    own.y = is_last(i) ? args.y : part(args.cache, place.y);
    own.cache = part(args.cache, place.cache);
    own.state = part(args.state, place.state);
    own.dy = is_last(i) ? args.dy : part(args.scratch, place.dy);
    if (own.gradients.data) own.gradients = args.gradients.from(place.slot);
    own.dnext_state = part(args.dnext_state, place.state);
    own.dstate = part(args.dstate, place.state);
    own.scratch = part(args.scratch, {inner_scratch_.offset, step.layer->scratch_size()});
    own.dx = {};
    // The first error that its one source hears is written where that reads it.
    const std::int32_t source = step.sources[0];
    const bool is_direct = is_wanted && step.sources.size() == 1 && place.is_first[0] && source != kInput;
    if (is_direct)
      own.dx = part(args.scratch, places_[static_cast<std::size_t>(source)].dy);
    else if (is_wanted)
      own.dx = part(args.scratch, {dx_.offset, step.layer->in()});
    step.layer->backward(stream, own);
    if (is_wanted && !is_direct) send(stream, args, i, x, own.dx);
  }
}

void Container::send(kernels::OpStream& stream, const BackwardArgs& args, std::size_t i, const ConstMatrixView& x,
                     const MatrixView& dx) const {
  const Step& step = steps_[i];
  const Place& place = places_[i];
  for (std::size_t s = 0; s < step.sources.size(); ++s) {
    const std::int32_t source = step.sources[s];
    const MatrixView target =
        source == kInput ? args.dx : part(args.scratch, places_[static_cast<std::size_t>(source)].dy);
    // A maximum is shared out source by source, so that one nobody wants takes its part all the same.
    if (!target.data && step.combine != Combine::max) continue;
    const MatrixView error = part(args.scratch, {split_.offset, place.sources[s].width});
    if (step.sources.size() == 1)
      stream.copy({dx, error});
    else
      split_gradient(
          stream, place.junction, s, place.sources[s],
          [&](std::size_t k) { return value(step.sources[k], args.x, args.cache); }, x, dx,
          part(args.scratch, {gate_.offset, step.combine == Combine::gate ? dx.cols : 0}), error);
    if (!target.data) continue;
    if (place.is_first[s])
      stream.copy({error, target});
    else
      stream.binary({kernels::BinaryOp::add, target, error, target});
  }
}

}  // namespace weft::mesh
