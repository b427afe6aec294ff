// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/container.hpp"

#include "core/cache_line.hpp"

#include <algorithm>
#include <utility>

namespace weft::mesh {

using kernels::ConstMatrixView;
using kernels::MatrixView;

namespace {

/// Some rows of a view, or none of none.
template <class View>
View rows(const View& all, std::size_t first, std::size_t count) noexcept {
  if (!all.data) return {};
  return {all.data + first * all.stride, count, all.cols, all.stride};
}

}  // namespace

Container::Container(Builder&& builder)
    : Layer(builder.in_, builder.steps_.back().layer->out_shape()), steps_(std::move(builder.steps_)) {
  places_.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) order_.push_back(i);
  if (builder.choice_) place_experts(*builder.choice_);
  place_values();
  place_parameters();
  has_policies_ = ContainerFaults(*this).has_policies();
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
    const bool reads_input = std::find(step.sources.begin(), step.sources.end(), kInput) != step.sources.end();
    const bool is_joined = step.sources.size() == 1 || step.combine == Combine::concat;
    if (limit != 0 && reads_input && is_joined)
      vocabulary_size_ = vocabulary_size_ == 0 ? limit : std::min(vocabulary_size_, limit);
  }
  dx_ = take(scratch_size_, widest_x);
  split_ = take(scratch_size_, widest_x);
  gate_ = take(scratch_size_, widest_gate);
  inner_scratch_ = take(scratch_size_, widest_scratch);
  const bool may_choose = std::any_of(places_.begin(), places_.end(), [](const Place& p) { return p.expert >= 0; });
  chosen_ = take(cache_size_, may_choose ? mixture_.experts : 0);
  chosen_then_ = take(scratch_size_, may_choose ? mixture_.experts : 0);

  std::vector<bool> is_sent(steps_.size() + 1, false);
  for (std::size_t i = steps_.size(); i-- > 0;)
    for (const std::int32_t s : steps_[i].sources) {
      auto sent = is_sent[static_cast<std::size_t>(s + 1)];
      places_[i].is_first.push_back(!sent);
      is_sent[static_cast<std::size_t>(s + 1)] = true;
    }
}

// An expert can be left out when nobody but the sum reads it, and when it is the same the next time: its state would
// go on, and so would its noise, or its statistics.
void Container::place_experts(const Builder::Choice& choice) {
  mixture_ = {static_cast<std::size_t>(choice.gate), static_cast<std::size_t>(choice.merge), choice.experts.size(),
              choice.top_k};
  if (choice.top_k == 0 || choice.top_k >= choice.experts.size()) return;
  for (std::size_t e = 0; e < choice.experts.size(); ++e) {
    const Layer& layer = *steps_[static_cast<std::size_t>(choice.experts[e])].layer;
    bool is_read_elsewhere = false;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (i != static_cast<std::size_t>(choice.merge))
        for (const std::int32_t s : steps_[i].sources) is_read_elsewhere |= s == choice.experts[e];
    if (is_read_elsewhere || layer.state_size() != 0 || layer.has_training_mode() || layer.takes_samples()) continue;
    places_[static_cast<std::size_t>(choice.experts[e])].expert = static_cast<std::int32_t>(e);
  }
  std::stable_partition(order_.begin(), order_.end(), [&](std::size_t i) {
    return places_[i].expert < 0 && i != static_cast<std::size_t>(choice.merge);
  });
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
    places_[i].first_parameter = parameters_.size();
    places_[i].parameters = step.owner ? 0 : count;
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
      parameter.own.inherit(step.own);
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
  for (std::size_t i = 0; i < steps_.size(); ++i) sum += part_of(i, 1) * steps_[i].layer->multiply_adds();
  return sum;
}

std::uint64_t Container::weight_bytes_touched(const Encoding& encoding, std::size_t rows) const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.owner) continue;
    const std::uint64_t all = step.layer->weight_bytes_touched(step.own.encoding.value_or(encoding), rows);
    sum += static_cast<std::uint64_t>(part_of(i, rows) * static_cast<double>(all));
  }
  return sum;
}

double Container::part_of(std::size_t i, std::size_t rows) const noexcept {
  if (places_[i].expert < 0) return 1.0;
  const std::size_t tokens = steps_[mixture_.gate].layer->out() / mixture_.experts;
  const double chosen = static_cast<double>(rows) * static_cast<double>(tokens) * static_cast<double>(mixture_.top_k);
  return std::min(1.0, chosen / static_cast<double>(mixture_.experts));
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
  for (const std::size_t i : order_) {
    as_step(i, [&] { forward_step(stream, args, i); });
    if (i == mixture_.gate && may_skip(stream, args.x.rows)) mark_chosen(stream, args.cache, part(args.cache, chosen_));
  }
}

bool Container::may_skip(const kernels::OpStream& stream, std::size_t rows) const noexcept {
  constexpr std::size_t kMany = 4;  // choices an expert, of which one in 50 meets with none
  if (chosen_.width == 0 || stream.computes_at_once()) return false;
  const std::size_t tokens = steps_[mixture_.gate].layer->out() / mixture_.experts;
  return rows * tokens * mixture_.top_k <= kMany * mixture_.experts;
}

void Container::mark_chosen(kernels::OpStream& stream, const ConstMatrixView& cache, const MatrixView& words) const {
  const ConstMatrixView shares = part(cache, places_[mixture_.gate].y);
  const std::size_t experts = mixture_.experts, tokens = shares.cols / experts;
  stream.fill({0.0f, rows(words, 0, 1)});
  // Sums of shares, which are never negative. By rows or by tokens, whichever are fewer.
  if (shares.rows <= tokens)
    for (std::size_t b = 0; b < shares.rows; ++b)
      stream.column_accumulate({{shares.row(b), tokens, experts, experts}, words.data});
  else
    for (std::size_t t = 0; t < tokens; ++t)
      stream.column_accumulate({{shares.data + t * experts, shares.rows, experts, shares.stride}, words.data});
}

void Container::forward_step(kernels::OpStream& stream, const ForwardArgs& args, std::size_t i) const {
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
  if (!leaves_out(i, stream)) {
    const bool is_optional = place.expert >= 0 && may_skip(stream, args.x.rows);
    // A skipped expert leaves zeros: rows of passes that skipped it are learned from beside rows of others.
    if (is_optional)
      for (const MatrixView& left : {own.y, own.z, own.cache})
        if (left.data) stream.fill({0.0f, left});
    const bool depends = is_optional && stream.run_only_if(part(args.cache, chosen_).data + place.expert);
    steps_[i].layer->forward(stream, own);
    if (depends) stream.run_only_if(nullptr);
    return;
  }
  each_run(i, args.cache, [&](std::size_t first, std::size_t count, bool is_chosen) {
    ForwardArgs some = own;
    some.x = rows(own.x, first, count);
    some.z = rows(own.z, first, count);
    some.y = rows(own.y, first, count);
    some.cache = rows(own.cache, first, count);
    if (is_chosen)
      steps_[i].layer->forward(stream, some);
    else
      stream.fill({0.0f, some.y});
  });
}

template <class Visit>
void Container::each_run(std::size_t i, const ConstMatrixView& cache, const Visit& visit) const {
  const ConstMatrixView shares = part(cache, places_[mixture_.gate].y);
  const auto is_chosen = [&](std::size_t row) {
    for (std::size_t at = static_cast<std::size_t>(places_[i].expert); at < shares.cols; at += mixture_.experts)
      if (shares.row(row)[at] != 0.0f) return true;
    return false;
  };
  for (std::size_t first = 0, end = 0; first < shares.rows; first = end) {
    const bool is_now = is_chosen(first);
    for (end = first + 1; end < shares.rows && is_chosen(end) == is_now;) ++end;
    visit(first, end - first, is_now);
  }
}

void Container::backward(kernels::OpStream& stream, const BackwardArgs& args) const {
  const MatrixView chosen = part(args.scratch, chosen_then_);
  const bool may_skip_experts = may_skip(stream, args.dy.rows);
  if (may_skip_experts) mark_chosen(stream, args.cache, chosen);
  for (std::size_t i = steps_.size(); i-- > 0;)
    as_step(i, [&] { backward_step(stream, args, i, may_skip_experts ? chosen : MatrixView()); });
}

void Container::backward_step(kernels::OpStream& stream, const BackwardArgs& args, std::size_t i,
                              const MatrixView& chosen) const {
  const Step& step = steps_[i];
  const Place& place = places_[i];
  const ConstMatrixView x = input_of(i, args.x, args.cache);
  const bool is_wanted =
      args.dx.data || std::any_of(step.sources.begin(), step.sources.end(), [](std::int32_t s) { return s != kInput; });
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
  const bool takes_rows = own.gradients.data && own.gradients.rows;
  if (!leaves_out(i, stream) || takes_rows) {
    const bool is_optional = place.expert >= 0 && chosen.data && !takes_rows;
    if (is_optional && own.dx.data) stream.fill({0.0f, own.dx});
    const bool depends = is_optional && stream.run_only_if(chosen.data + place.expert);
    step.layer->backward(stream, own);
    if (depends) stream.run_only_if(nullptr);
  } else {
    each_run(i, args.cache, [&](std::size_t first, std::size_t count, bool is_chosen) {
      BackwardArgs some = own;
      for (ConstMatrixView BackwardArgs::*view :
           {&BackwardArgs::x, &BackwardArgs::z, &BackwardArgs::y, &BackwardArgs::cache})
        some.*view = rows(own.*view, first, count);
      for (MatrixView BackwardArgs::*view : {&BackwardArgs::dy, &BackwardArgs::dx, &BackwardArgs::scratch})
        some.*view = rows(own.*view, first, count);
      if (is_chosen)
        step.layer->backward(stream, some);
      else if (some.dx.data)
        stream.fill({0.0f, some.dx});
    });
  }
  if (is_wanted && !is_direct) send(stream, args, i, x, own.dx);
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
