// SPDX-License-Identifier: Apache-2.0

#include "learning/learner.hpp"

#include "mesh/runtime/metacognition_rule.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace weft::learning {

namespace {
/// Samples of one run of the executor: enough that starting it costs nothing, few enough that rings stay small.
constexpr std::uint64_t kChunk = 256, kLeastChunk = 4;
constexpr std::uint64_t kTargetValues = std::uint64_t{1} << 20;  // of a chunk, about
std::size_t padded(std::size_t floats) { return (floats + 15) / 16 * 16; }
}  // namespace

using kernels::Rows;
using mesh::NodeId;

namespace {

// Labels that a sample of an output has: one a token of [tokens, classes].
std::size_t tokens_of(const mesh::Node& output, Loss loss) noexcept {
  return loss == Loss::cross_entropy ? output.width / output.shape.back() : 1;
}

}  // namespace

Result<std::unique_ptr<Learner>> Learner::build(mesh::Mesh& mesh, LearningOptions options) {
  std::unique_ptr<Learner> learner(new Learner(mesh, with_defaults(options)));
  WEFT_CHECK(learner->plan());
  WEFT_TRY(learner->optimizer_, Optimizer::build(mesh.weights(), learner->options_.optimizer));
  learner->make_feedback();
  // Oldest value read: the source of the deepest wave, 2 (depth - 1) + 1 ticks back; a neighbour may be two ticks
  // ahead.
  const std::size_t history = std::bit_ceil<std::size_t>(2 * std::size_t{learner->deepest_} + 2);
  WEFT_CHECK(mesh.attach(learner.get(), history));
  learner->make_scratch();
  learner->birth_tick_ = mesh.ticks();
  return learner;
}

Learner::~Learner() {
  const Status taken_off = mesh_.attach(nullptr, 2);
  WEFT_ASSERT(taken_off, "taking a learner off shrinks the state, which cannot fail but for memory");
}

Status Learner::plan() {
  const mesh::Graph& graph = mesh_.graph();
  if (graph.outputs().empty())
    return fail(Errc::invalid_argument,
                "learning: the network names no outputs, so nothing can be learned; add \"outputs\"");
  if (options_.learners == 0 || options_.learners > mesh_.sessions())
    return fail(Errc::invalid_argument, "learning.learners: " + std::to_string(options_.learners) + " of " +
                                            std::to_string(mesh_.sessions()) + " sessions");
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    std::optional<std::uint32_t> nearest;
    for (NodeId port = 0; port < graph.port_count(); ++port)
      if (const auto ticks = graph.latency(port, graph.outputs()[i])) nearest = std::max(nearest.value_or(0), *ticks);
    if (!nearest)
      return fail(Errc::invalid_argument,
                  "outputs." + graph.spec().outputs[i].name + ": no input reaches it, so no sample can be scored");
    latency_ = std::max(latency_, *nearest);
  }
  hold_ = options_.hold ? options_.hold : std::max(latency_, graph.settle_ticks());
  const Waves waves(graph, options_.rule, options_.horizon);
  deepest_ = waves.depth();
  depth_ = std::max<std::uint32_t>(deepest_, 2);

  layers_.resize(graph.nodes().size());
  gradient_sizes_.resize(graph.nodes().size());
  gradient_squares_.resize(graph.nodes().size());
  has_failed_.resize(graph.nodes().size());
  is_measured_.resize(graph.nodes().size());
  for (const mesh::Node& node : graph.nodes())
    if (!node.is_port() && node.layer->watch() && node.layer->watch()->look == mesh::WatchRule::Look::gradient_storm)
      for (const std::uint32_t e : node.sources) is_measured_[graph.edges()[e].from] = true;
  edge_boxes_.resize(graph.edges().size());
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const NodeId node = graph.outputs()[i];
    layers_[node].output = static_cast<std::int32_t>(i);
    const mesh::Node& made = graph.nodes()[node];
    outputs_.push_back({node, made.width, tokens_of(made, options_.loss), {}, {}, {}, {}, {}});
    if (options_.rule == Rule::dfa) error_boxes_.push_back(add_box(graph.nodes()[node].width));
  }
  // Readers first, so that the boxes a layer reads exist: a wave of distance r is fed by waves of distance r - 1.
  for (std::uint32_t distance = 0; distance < waves.depth(); ++distance)
    for (NodeId node = static_cast<NodeId>(graph.port_count()); node < graph.nodes().size(); ++node)
      if (waves.has(node, distance)) plan_wave(waves, node, distance);
  boxes_ = AlignedBuffer<float>(2 * box_half_);
  plan_sharing();

  chunk_ = kChunk;
  for (const OutputPlan& output : outputs_)
    if (options_.loss == Loss::mse)
      chunk_ = std::clamp(kTargetValues / (options_.learners * output.width), kLeastChunk, chunk_);
  const std::uint64_t ring = std::bit_ceil<std::uint64_t>(chunk_ + latency_ + 2 * std::uint64_t{depth_} + 2);
  ring_mask_ = ring - 1;
  for (OutputPlan& output : outputs_) {
    output.labels.assign(ring * options_.learners * output.tokens, kNoLabel);
    output.classes.assign(output.labels.size(), 0);
    output.predictions.assign(output.labels.size(), kNotScored);
    output.losses.assign(output.labels.size(), 0.0f);
    if (options_.loss == Loss::mse) output.values.assign(ring * options_.learners * output.width, 0.0f);
  }
  return {};
}

void Learner::plan_sharing() {
  const mesh::Graph& graph = mesh_.graph();
  std::map<NodeId, std::set<NodeId>> users;
  for (NodeId id = 0; id < graph.nodes().size(); ++id)
    for (const NodeId owner : graph.nodes()[id].owners) users[owner].insert({id, owner});
  for (LayerPlan& layer : layers_) layer.reach = layer.waves.empty() ? 0 : layer.waves.back().distance;
  for (const auto& [owner, all] : users) {
    Sharing sharing{owner, {}, 0, 0, false};
    for (const NodeId user : all) {
      if (layers_[user].waves.empty()) continue;  // no error reaches it
      sharing.users.push_back(user);
      layers_[user].sharings.push_back(static_cast<std::uint32_t>(sharings_.size()));
      sharing.reach = std::max(sharing.reach, layers_[user].waves.back().distance);
    }
    sharings_.push_back(std::move(sharing));
  }
  // In a mesh's first ticks all users of a weight wait for the one whose errors reach back furthest. Sharers of sharers
  // too: a few passes reach everybody.
  for (bool is_news = true; is_news;) {
    is_news = false;
    for (Sharing& sharing : sharings_)
      for (const NodeId user : sharing.users) sharing.reach = std::max(sharing.reach, layers_[user].reach);
    for (const Sharing& sharing : sharings_)
      for (const NodeId user : sharing.users) {
        is_news |= layers_[user].reach < sharing.reach;
        layers_[user].reach = std::max(layers_[user].reach, sharing.reach);
      }
  }
}

std::uint32_t Learner::add_box(std::size_t width) {
  box_table_.push_back({box_half_, width, padded(width)});
  box_half_ += padded(width) * options_.learners;
  return static_cast<std::uint32_t>(box_table_.size() - 1);
}

void Learner::plan_wave(const Waves& waves, NodeId id, std::uint32_t distance) {
  const mesh::Graph& graph = mesh_.graph();
  const mesh::Node& node = graph.nodes()[id];
  Wave wave;
  wave.distance = distance;
  wave.outbox.assign(node.sources.size(), kNoBox);
  if (options_.rule != Rule::dfa) {
    for (std::uint32_t e : node.readers)
      for (const auto& [reader_distance, box] : edge_boxes_[e])
        if (reader_distance + 1 == distance) wave.inbox.push_back(box);
    for (std::size_t i = 0; i < node.sources.size(); ++i) {
      const mesh::Edge& edge = graph.edges()[node.sources[i]];
      if (!waves.has(edge.from, distance + 1)) continue;
      wave.outbox[i] = add_box(edge.width);
      wave.sends = true;
      edge_boxes_[node.sources[i]].emplace_back(distance, wave.outbox[i]);
    }
    if (options_.rule == Rule::backprop && node.layer->state_size()) {
      if (!layers_[id].waves.empty() && layers_[id].waves.back().distance + 1 == distance)
        wave.state_in = layers_[id].waves.back().state_out;
      if (waves.has(id, distance + 1)) wave.state_out = add_box(node.layer->state_size());
    }
  }
  layers_[id].waves.push_back(std::move(wave));
}

void Learner::make_feedback() {
  if (options_.rule != Rule::fw_dtp && options_.rule != Rule::dfa) return;
  const mesh::Graph& graph = mesh_.graph();
  std::size_t total = 0;
  // fw_dtp: one matrix [in, out] a layer, from its own displacement to its input's. dfa: one [width, output] a layer
  // and output.
  const auto each = [&](auto&& visit) {
    for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
      const mesh::Node& node = graph.nodes()[id];
      if (options_.rule == Rule::fw_dtp) {
        if (node.layer->mixing_matrix() >= 0) visit(id, 0, node.in, node.width);
      } else {
        for (std::size_t o = 0; o < outputs_.size(); ++o) visit(id, o, node.width, outputs_[o].width);
      }
    }
  };
  each([&](NodeId id, std::size_t o, std::size_t rows, std::size_t columns) {
    if (o == 0) layers_[id].feedback = total;
    layers_[id].has_feedback = true;
    total += kernels::panels_size(rows, columns);
  });
  feedback_ = AlignedBuffer<float>(total);
  std::size_t place = 0;
  each([&](NodeId id, std::size_t o, std::size_t rows, std::size_t columns) {
    RandomStream random(graph.spec().seed, graph.spec().grid.index(graph.nodes()[id].at) * 16 + o,
                        RandomPurpose::feedback);
    const float deviation = options_.feedback_scale / std::sqrt(static_cast<float>(columns));
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        feedback_[place + kernels::panel_index(columns, r, c)] = random.next_normal() * deviation;
    place += kernels::panels_size(rows, columns);
  });
}

void Learner::make_scratch() {
  std::size_t widest = 1, widest_own = 0, widest_gathered = 1;
  bool splits = false;  // some layer's error goes to several sources
  for (const mesh::Node& node : mesh_.graph().nodes()) {
    widest = std::max({widest, node.in, node.width});
    if (node.is_port()) continue;
    widest_own = std::max(widest_own, node.layer->scratch_size());
    splits = splits || !node.reads_directly();
  }
  for (NodeId id = 0; id < layers_.size(); ++id)
    for (const Wave& wave : layers_[id].waves)
      if (wave.distance == 0 || wave.inbox.size() != 1)
        widest_gathered = std::max(widest_gathered, mesh_.graph().nodes()[id].width);
  const std::size_t n = padded(widest) * options_.learners;
  scratch_.clear();
  for (std::size_t r = 0; r < mesh_.plan().regions.size(); ++r) {
    Scratch scratch;
    const bool has_targets = options_.rule != Rule::backprop;
    if (has_targets || splits) {
      scratch.target = AlignedBuffer<float>(n);
      scratch.split = AlignedBuffer<float>(n);
      scratch.dx = AlignedBuffer<float>(n);
    }
    if (has_targets) scratch.work = AlignedBuffer<float>(n);
    scratch.delta = AlignedBuffer<float>(has_targets || splits ? n : padded(widest_gathered) * options_.learners);
    scratch.own = AlignedBuffer<float>(padded(widest_own) * options_.learners);
    scratch.factors = AlignedBuffer<float>(padded(std::max(widest, options_.learners)));
    scratch_.push_back(std::move(scratch));
  }
}

std::uint64_t Learner::steps_per_sample() const noexcept {
  if (options_.schedule == Schedule::pipelined) return 1;
  return hold_ + (options_.rule == Rule::dfa ? 2 : depth_);
}

bool Learner::fires(std::uint64_t step) const noexcept {
  return options_.schedule == Schedule::pipelined || step % steps_per_sample() < hold_;
}

std::uint64_t Learner::fired_before(std::uint64_t step) const noexcept {
  if (options_.schedule == Schedule::pipelined) return step;
  const std::uint64_t period = steps_per_sample();
  return step / period * hold_ + std::min<std::uint64_t>(step % period, hold_);
}

std::vector<std::pair<NodeId, NodeId>> Learner::extra_links() const {
  std::vector<std::pair<NodeId, NodeId>> links;
  if (options_.rule != Rule::dfa) return links;
  // The outputs' errors go straight to every layer.
  for (const OutputPlan& output : outputs_)
    for (NodeId id = static_cast<NodeId>(mesh_.graph().port_count()); id < layers_.size(); ++id)
      if (id != output.node && !layers_[id].waves.empty()) links.emplace_back(output.node, id);
  return links;
}

// Asking for the mesh's state brings that of the rule up to a device too; who may write is taken to write.
Optimizer& Learner::optimizer() noexcept {
  static_cast<void>(mesh_.state());
  return optimizer_;
}

const Optimizer& Learner::optimizer() const noexcept {
  static_cast<void>(std::as_const(mesh_).state());
  return optimizer_;
}

void Learner::hash_layer(NodeId node, StateHasher& hasher) const {
  optimizer_.hash_layer(std::as_const(mesh_).weights(), node, hasher);
}

void Learner::remember_layer(NodeId node, std::vector<float>& kept) const {
  optimizer_.save_layer(std::as_const(mesh_).weights(), node, kept);
}

const float* Learner::restart_layer(NodeId node, const float* kept) noexcept {
  return optimizer_.restore_layer(mesh_.weights(), node, kept);
}

Status Learner::check(std::span<const mesh::RunInput> inputs, std::span<const Target> targets,
                      std::uint64_t samples) const {
  for (const mesh::RunInput& input : inputs) {
    const auto port = mesh_.graph().find_port(input.port);
    if (!port) return fail(Errc::unknown_name, "no input is named '" + std::string(input.port) + "'");
    const std::uint64_t wanted = samples * mesh_.sessions() * mesh_.graph().nodes()[*port].width;
    if (input.values.size() != wanted)
      return fail(Errc::shape_mismatch, "input '" + std::string(input.port) +
                                            "': " + std::to_string(input.values.size()) + " values where " +
                                            std::to_string(wanted) + " are expected (samples x sessions x width)");
    WEFT_CHECK(mesh::check_values(mesh_.graph().nodes()[*port], input.values));
  }
  for (const Target& target : targets) {
    const auto node = mesh_.graph().find_output(target.output);
    if (!node) return fail(Errc::unknown_name, "no output is named '" + std::string(target.output) + "'");
    const mesh::Node& output = mesh_.graph().nodes()[*node];
    const std::size_t width = output.width, tokens = tokens_of(output, options_.loss), classes = width / tokens;
    const auto object = [&] { return "target of '" + std::string(target.output) + "': "; };
    const bool takes_labels = options_.loss == Loss::cross_entropy;
    const std::uint64_t wanted = samples * options_.learners * (takes_labels ? tokens : width);
    const std::size_t found = takes_labels ? target.labels.size() : target.values.size();
    if (found != wanted)
      return fail(Errc::shape_mismatch, object() + std::to_string(found) + (takes_labels ? " labels" : " values") +
                                            " where " + std::to_string(wanted) + " are expected");
    for (std::size_t i = 0; takes_labels && i < found; ++i)
      if (target.labels[i] != kNoLabel && target.labels[i] >= classes)
        return fail(Errc::out_of_range, object() + "label " + std::to_string(target.labels[i]) + " of sample " +
                                            std::to_string(i / (options_.learners * tokens)) +
                                            " is not below the output's width " + std::to_string(classes));
    for (std::size_t i = 0; !takes_labels && i < found; ++i)
      if (!std::isfinite(target.values[i]))
        return fail(Errc::not_finite,
                    object() + "value " + std::to_string(i) + " is " + std::to_string(target.values[i]));
  }
  return {};
}

void Learner::set_classes(OutputPlan& output, std::size_t first, std::size_t count) noexcept {
  for (std::size_t i = first; i < first + count; ++i)
    output.classes[i] = output.labels[i] == kNoLabel ? 0 : output.labels[i];
}

void Learner::stage(std::span<const Target> targets, std::uint64_t first, std::uint64_t samples) {
  const std::size_t n = options_.learners;
  for (OutputPlan& output : outputs_) {
    const auto target = std::find_if(targets.begin(), targets.end(), [&](const Target& t) {
      return mesh_.graph().find_output(t.output) == output.node;
    });
    for (std::uint64_t s = 0; s < samples; ++s) {
      const std::size_t slot = (samples_ + s) & ring_mask_;
      const std::size_t places = n * output.tokens;
      std::uint32_t* labels = output.labels.data() + slot * places;
      // What is never scored, for want of a label, says so, and not what stood in its slot before.
      std::fill_n(output.predictions.data() + slot * places, places, kNotScored);
      if (target == targets.end()) {
        std::fill_n(labels, places, kNoLabel);
      } else if (options_.loss == Loss::cross_entropy) {
        std::copy_n(target->labels.data() + (first + s) * places, places, labels);
      } else {
        std::fill_n(labels, places, 0u);
        std::copy_n(target->values.data() + (first + s) * n * output.width, n * output.width,
                    output.values.data() + slot * n * output.width);
      }
      set_classes(output, slot * places, places);
    }
  }
}

Status Learner::learn(std::span<const mesh::RunInput> inputs, std::span<const Target> targets, std::uint64_t samples) {
  WEFT_CHECK(check(inputs, targets, samples));
  for (std::uint64_t done = 0; done < samples;) {
    const std::uint64_t now = std::min(chunk_, samples - done);
    stage(targets, done, now);
    for (const mesh::RunInput& input : inputs) {
      const NodeId port = *mesh_.graph().find_port(input.port);
      const std::size_t row = mesh_.sessions() * mesh_.graph().nodes()[port].width;
      mesh_.engine().feed(port,
                          {input.values.data() + done * row, now, options_.schedule == Schedule::settle ? hold_ : 1});
    }
    block_first_ = samples_;
    samples_ += now;
    const Status ran = run(now * steps_per_sample());
    for (const mesh::RunInput& input : inputs) mesh_.engine().feed(*mesh_.graph().find_port(input.port), {});
    if (!ran) return ran;
    done += now;
  }
  return {};
}

Status Learner::drain() {
  if (options_.schedule == Schedule::settle) return {};
  // The last sample's error has reached the farthest layer.
  WEFT_CHECK(run(latency_ + depth_));
  birth_tick_ = mesh_.ticks() - samples_;
  return {};
}

Status Learner::run(std::uint64_t steps) {
  for (Sharing& sharing : sharings_) sharing.pending = 0;  // after a halt some users never came
  std::uint64_t done = 0;
  const Status ran = mesh_.run_steps(steps, done);
  steps_ += done;
  // After a halt the samples that were not lived through to the end are forgotten; the caller may give them again.
  if (!ran && samples_ > block_first_) samples_ = std::min(samples_, block_first_ + done / steps_per_sample());
  collect_scores();
  return ran;
}

void Learner::collect_scores() {
  std::uint64_t end = samples_;
  if (options_.schedule == Schedule::pipelined) {
    const std::uint64_t first = birth_tick_ + latency_;
    end = std::clamp<std::uint64_t>(mesh_.ticks() > first ? mesh_.ticks() - first : 0, scored_, samples_);
  }
  for (; scored_ < end; ++scored_)
    for (const OutputPlan& output : outputs_)
      for (std::size_t i = 0, places = options_.learners * output.tokens; i < places; ++i)
        pending_scores_.push_back(score(output, scored_, i));
}

Score Learner::score(const OutputPlan& output, std::uint64_t sample, std::size_t place) const noexcept {
  const std::size_t at = (sample & ring_mask_) * options_.learners * output.tokens + place;
  Score score{sample, static_cast<std::uint32_t>(place / output.tokens)};
  score.token = static_cast<std::uint32_t>(place % output.tokens);
  if (output.predictions[at] == kNotScored) return score;
  score.prediction = output.predictions[at];
  score.label = output.labels[at];
  score.loss = score.label == kNoLabel ? 0.0f : output.losses[at];
  return score;
}

std::vector<std::uint32_t> Learner::save_flight() const {
  std::vector<std::uint32_t> out;
  save_flight(out);
  return out;
}

void Learner::save_flight(std::vector<std::uint32_t>& out) const {
  out.clear();
  static_cast<void>(std::as_const(mesh_).state());
  const auto put64 = [&](std::uint64_t v) {
    out.push_back(static_cast<std::uint32_t>(v));
    out.push_back(static_cast<std::uint32_t>(v >> 32));
  };
  for (std::uint64_t v : {samples_, scored_, steps_, birth_tick_, std::uint64_t{boxes_.size()}}) put64(v);
  for (float v : boxes_) out.push_back(std::bit_cast<std::uint32_t>(v));
  for (const OutputPlan& output : outputs_) {
    out.insert(out.end(), output.labels.begin(), output.labels.end());
    for (float v : output.values) out.push_back(std::bit_cast<std::uint32_t>(v));
  }
  for (NodeId node = 0; node < is_measured_.size(); ++node)
    for (std::size_t half = 0; half < 2 && is_measured_[node]; ++half)
      out.push_back(std::bit_cast<std::uint32_t>(gradient_sizes_[node][half]));
}

Status Learner::load_flight(std::span<const std::uint32_t> in) {
  std::size_t wanted = 10 + boxes_.size();
  for (const OutputPlan& output : outputs_) wanted += output.labels.size() + output.values.size();
  wanted += 2 * static_cast<std::size_t>(std::count(is_measured_.begin(), is_measured_.end(), true));
  if (in.size() != wanted)
    return fail(Errc::shape_mismatch, "learner state: " + std::to_string(in.size()) + " words where " +
                                          std::to_string(wanted) + " are expected; network or learning options differ");
  const auto get64 = [&](std::size_t i) { return std::uint64_t{in[2 * i]} | std::uint64_t{in[2 * i + 1]} << 32; };
  static_cast<void>(mesh_.state());
  const std::uint64_t samples = get64(0), scored = get64(1), birth = get64(3);
  if (get64(4) != boxes_.size() || scored > samples || birth > mesh_.ticks())
    return fail(Errc::corrupt, "learner state: counters contradict each other");
  samples_ = samples;
  scored_ = scored;
  steps_ = get64(2);
  birth_tick_ = birth;
  std::size_t next = 10;
  for (float& v : boxes_) v = std::bit_cast<float>(in[next++]);
  for (OutputPlan& output : outputs_) {
    for (std::uint32_t& label : output.labels) {
      label = in[next++];
      if (label != kNoLabel && label >= output.width / output.tokens)
        return fail(Errc::corrupt, "learner state: label " + std::to_string(label) + " of an output of width " +
                                       std::to_string(output.width / output.tokens));
    }
    set_classes(output, 0, output.labels.size());
    for (float& v : output.values) v = std::bit_cast<float>(in[next++]);
  }
  for (NodeId node = 0; node < is_measured_.size(); ++node)
    for (std::size_t half = 0; half < 2 && is_measured_[node]; ++half) {
      gradient_sizes_[node][half] = std::bit_cast<float>(in[next++]);
      if (!std::isfinite(gradient_sizes_[node][half]))
        return fail(Errc::corrupt, "learner state: a gradient's size is not finite");
    }
  pending_scores_.clear();
  return {};
}

}  // namespace weft::learning
