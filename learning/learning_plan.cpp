// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/learning_plan.hpp"

#include "learning/rules/rule.hpp"

#include "core/cache_line.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <string>

namespace weft::learning {

using mesh::NodeId;

namespace {

/// Samples of one run of the executor: enough that starting it costs nothing, few enough that rings stay small.
constexpr std::uint64_t kChunk = 256, kLeastChunk = 4;
constexpr std::uint32_t kLeastDepth = 2;                         // of errors' ways, in links
constexpr std::uint64_t kTargetValues = std::uint64_t{1} << 20;  // of a chunk, about

class Planner {
 public:
  Planner(const mesh::Graph& graph, const LearningOptions& options, LearningPlan& plan)
      : graph_(graph), options_(options), plan_(plan), edge_messages_(graph.edges().size()) {}

  Status find_latency(std::size_t sessions);
  Status check_heads() const;
  void plan_hops();
  void plan_tied();
  void plan_moves();
  Status plan_traces();
  Status check_rows() const;
  double depth_factor() const;
  void plan_steps();
  void plan_arrivals();
  void plan_settled();
  void plan_delays();
  void plan_windows();

 private:
  std::uint32_t add_message(std::size_t width);
  void plan_hop(const ErrorSchedule& schedule, NodeId id, std::uint32_t distance);
  /// An update of the layer's own weights is by the errors of one row.
  bool is_by_one_row(NodeId id) const noexcept {
    const LayerPlan& layer = plan_.layers[id];
    return options_.learners == 1 && layer.moves && layer.hops.size() == 1 && layer.groups.empty();
  }

  const mesh::Graph& graph_;
  const LearningOptions& options_;
  LearningPlan& plan_;
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> edge_messages_;  // edge -> (distance, message)
};

Status Planner::find_latency(std::size_t sessions) {
  if (graph_.outputs().empty())
    return fail(Errc::invalid_argument,
                "learning: the network names no outputs, so nothing can be learned; add \"outputs\"");
  if (options_.learners == 0 || options_.learners > sessions)
    return fail(Errc::invalid_argument, "learning.learners: " + std::to_string(options_.learners) + " of " +
                                            std::to_string(sessions) + " sessions");
  WEFT_CHECK(check_heads());
  WEFT_TRY(plan_.latency, latency_of(graph_));
  plan_.hold = hold_of(graph_, options_, plan_.latency);
  return {};
}

/// Heads are what an output's values fall into.
Status Planner::check_heads() const {
  if (targets_of(options_.loss) != LossTargets::head_labels) return {};
  const std::uint64_t all = std::accumulate(options_.heads.begin(), options_.heads.end(), std::uint64_t{0});
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
    if (const std::size_t width = graph_.nodes()[graph_.outputs()[i]].width; width != all)
      return fail(Errc::shape_mismatch, "learning.heads: " + std::to_string(options_.heads.size()) + " heads of " +
                                            std::to_string(all) + " values in all; output '" +
                                            graph_.spec().outputs[i].name + "' has " + std::to_string(width));
  return {};
}

std::uint32_t Planner::add_message(std::size_t width) {
  plan_.messages.push_back({plan_.message_floats, width, padded(width)});
  plan_.message_floats += padded(width) * options_.learners;
  return static_cast<std::uint32_t>(plan_.messages.size() - 1);
}

void Planner::plan_hops() {
  const ErrorSchedule schedule(graph_, options_.rule, options_.horizon);
  plan_.deepest = schedule.depth();
  plan_.depth = std::max(plan_.deepest, kLeastDepth);
  plan_.history = history_of(graph_, schedule, options_, plan_.hold);
  plan_.layers.resize(graph_.nodes().size());
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const NodeId node = graph_.outputs()[i];
    plan_.layers[node].output = static_cast<std::int32_t>(i);
    if (rule_of(options_).path == ErrorPath::direct)
      plan_.error_messages.push_back(add_message(graph_.nodes()[node].width));
  }
  // Readers first, so that the messages a layer reads exist: a hop of distance r is fed by hops of distance r - 1.
  for (std::uint32_t distance = 0; distance < schedule.depth(); ++distance)
    for (NodeId node = static_cast<NodeId>(graph_.port_count()); node < graph_.nodes().size(); ++node)
      if (schedule.has(node, distance)) plan_hop(schedule, node, distance);
}

void Planner::plan_hop(const ErrorSchedule& schedule, NodeId id, std::uint32_t distance) {
  const mesh::Node& node = graph_.nodes()[id];
  std::vector<Hop>& hops = plan_.layers[id].hops;
  Hop hop;
  hop.distance = distance;
  hop.outbox.assign(node.sources.size(), kNoMessage);
  if (is_along_links(rule_of(options_).path)) {
    for (std::uint32_t e : node.readers)
      for (const auto& [reader_distance, message] : edge_messages_[e])
        if (reader_distance + 1 == distance) hop.inbox.push_back(message);
    for (std::size_t i = 0; i < node.sources.size(); ++i) {
      const mesh::Edge& edge = graph_.edges()[node.sources[i]];
      if (!schedule.has(edge.from, distance + 1)) continue;
      hop.outbox[i] = add_message(edge.width);
      hop.sends = true;
      edge_messages_[node.sources[i]].emplace_back(distance, hop.outbox[i]);
    }
    if (carries_error(graph_, id, rule_of(options_))) {
      if (!hops.empty() && hops.back().distance + 1 == distance) hop.state_in = hops.back().state_out;
      if (schedule.has(id, distance + 1)) hop.state_out = add_message(node.layer->state_size());
    }
  }
  // The sample's last tick is still in the rings when errors leave the outputs.
  if (plan_.history.has_records && (distance > 0 || node.value_dtypes.activation != Dtype::float32))
    hop.record = hops.empty() || !hops.back().has_record() ? 0 : hops.back().record + 1;
  hops.push_back(std::move(hop));
}

void Planner::plan_tied() {
  std::map<NodeId, std::set<NodeId>> users;
  for (NodeId id = 0; id < graph_.nodes().size(); ++id)
    for (const NodeId owner : graph_.nodes()[id].owners) users[owner].insert({id, owner});
  std::vector<LayerPlan>& layers = plan_.layers;
  for (LayerPlan& layer : layers) layer.reach = layer.hops.empty() ? 0 : layer.hops.back().distance;
  for (const auto& [owner, all] : users) {
    TiedGroup group{owner, {}, 0};
    for (const NodeId user : all) {
      if (layers[user].hops.empty()) continue;  // no error reaches it
      group.users.push_back(user);
      layers[user].groups.push_back(static_cast<std::uint32_t>(plan_.tied.size()));
      group.reach = std::max(group.reach, layers[user].hops.back().distance);
    }
    plan_.tied.push_back(std::move(group));
  }
  // In a mesh's first ticks all users of a weight wait for the one whose errors reach back furthest. Users of several
  // weights join groups: a few passes reach them all.
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (TiedGroup& group : plan_.tied)
      for (const NodeId user : group.users) group.reach = std::max(group.reach, layers[user].reach);
    for (const TiedGroup& group : plan_.tied)
      for (const NodeId user : group.users) {
        has_changed |= layers[user].reach < group.reach;
        layers[user].reach = std::max(layers[user].reach, group.reach);
      }
  }
}

void Planner::plan_moves() {
  for (NodeId id = static_cast<NodeId>(graph_.port_count()); id < graph_.nodes().size(); ++id) {
    const mesh::Node& node = graph_.nodes()[id];
    plan_.layers[id].moves = !plan_.layers[id].hops.empty() && !node.is_frozen;
  }
  for (const TiedGroup& group : plan_.tied) {
    LayerPlan& owner = plan_.layers[group.owner];
    owner.moves = !group.users.empty() && !graph_.nodes()[group.owner].is_frozen;
    owner.reach = std::max(owner.reach, group.reach);
  }
  plan_.moves_together = options_.optimizer.clip == Clip::global_norm || options_.traces || options_.perturb.is_on();
  // Of a norm all gradients must be known before the first weight moves; some look at them after it.
  const bool needs_gradients = plan_.moves_together || options_.optimizer.clip == Clip::norm ||
                               options_.consolidation.weighs() || options_.lora.is_on();
  for (NodeId id = static_cast<NodeId>(graph_.port_count()); id < graph_.nodes().size() && !needs_gradients; ++id) {
    LayerPlan& layer = plan_.layers[id];
    const mesh::Node& node = graph_.nodes()[id];
    layer.is_outer = is_by_one_row(id) && is_one_product(node) && node.layer->row_product();
  }
  plan_.travel = (is_along_links(rule_of(options_).path) ? plan_.depth : 2) + (plan_.moves_together ? 2 : 0);
}

/// The output of each layer with traces: their step is by one error.
Status Planner::plan_traces() {
  if (!options_.traces) return {};
  const bool takes_products = rule_of(options_).path == ErrorPath::gradients && options_.gradient_limit == 0.0f &&
                              !options_.consolidation.weighs();
  for (NodeId id = 0; id < plan_.layers.size() && takes_products; ++id)
    plan_.layers[id].keeps_products = is_by_one_row(id) && graph_.nodes()[id].owners.empty();
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    std::vector<NodeId> front{graph_.outputs()[i]};
    std::vector<bool> is_reached(graph_.nodes().size());
    while (!front.empty()) {
      const NodeId id = front.back();
      front.pop_back();
      const mesh::Node& node = graph_.nodes()[id];
      if (is_reached[id] || node.is_port()) continue;
      is_reached[id] = true;
      std::int32_t& output = plan_.layers[id].traced_for;
      if (output >= 0 && plan_.layers[id].moves && !node.layer->parameters().empty())
        return fail(Errc::unsupported,
                    "learning.traces: errors of '" + graph_.spec().outputs[static_cast<std::size_t>(output)].name +
                        "' and of '" + graph_.spec().outputs[i].name + "' reach the layer at " + to_string(node.at) +
                        ", and a trace is moved by one of them; give each output layers of its own, or `freeze`");
      output = static_cast<std::int32_t>(i);
      for (const std::uint32_t edge : node.sources) front.push_back(graph_.edges()[edge].from);
    }
  }
  if (!plan_.tied.empty())
    return fail(Errc::unsupported,
                "learning.traces: layers with shared weights, which have no traces; give each its own");
  return options_.learners == 1 ? Status() : check_rows();
}

/// Traces of several learners take the gradients of each by itself, which dense layers alone give.
Status Planner::check_rows() const {
  for (NodeId id = static_cast<NodeId>(graph_.port_count()); id < plan_.layers.size(); ++id) {
    const mesh::Node& node = graph_.nodes()[id];
    const auto refuse = [&](const std::string& why) {
      return fail(Errc::unsupported, "learning.traces: " + std::to_string(options_.learners) + " learners, and " +
                                         node.object + " " + why);
    };
    const auto& parameters = node.layer->parameters();
    if (node.layer->observes_gradients()) return refuse("observes gradients, which are those of one; give one learner");
    if (!plan_.layers[id].moves || (parameters.empty() && node.owners.empty())) continue;
    const bool is_by_rows = std::all_of(parameters.begin(), parameters.end(),
                                        [](const mesh::ParameterSpec& parameter) { return parameter.is_outer; });
    if (std::any_of(parameters.begin(), parameters.end(), [](const mesh::ParameterSpec& parameter) {
          return parameter.own.rate_scale != 1.0f || parameter.own.encoding;
        }))
      return refuse("holds a layer with a rate or a type of its own; give one learner, or state them on the container");
    if (!is_by_rows || !node.owners.empty())
      return refuse("has weights whose gradients are sums over them; give one learner, or layers of type 'dense'");
    if (plan_.layers[id].hops.size() != 1)
      return refuse("is reached by errors on " + std::to_string(plan_.layers[id].hops.size()) +
                    " ways, and traces take one; give one learner, or set learning.horizon");
  }
  if (options_.gradient_limit == 0.0f) return {};
  return fail(Errc::unsupported, "learning.traces: " + std::to_string(options_.learners) +
                                     " learners with a learning.gradient_limit of " +
                                     std::to_string(options_.gradient_limit) + "; give one learner, or 0");
}

/// Divisor of steps in deep networks. Changes of n layers on the way of an error add up at the output, and in a
/// pipelined network the error of the last is 2 n steps late: each takes 1 / n^2 of the step. Networks of up to
/// kShallow layers that learn take it whole.
double Planner::depth_factor() const {
  if (!rule_of(options_).adds_up) return 1.0;
  constexpr double kShallow = 4.0;
  std::set<std::uint32_t> distances;
  for (NodeId id = static_cast<NodeId>(graph_.port_count()); id < plan_.layers.size(); ++id)
    // No error reaches an owner of tied weights that no output is behind: it moves by those of its users.
    if (plan_.layers[id].moves && !plan_.layers[id].hops.empty() && !graph_.nodes()[id].layer->parameters().empty())
      distances.insert(plan_.layers[id].hops.front().distance);
  const double depth = std::max(static_cast<double>(distances.size()) / kShallow, 1.0);
  return depth * depth;
}

void Planner::plan_steps() {
  const auto size = static_cast<float>(options_.optimizer.lr * rule_of(options_).target_share * depth_factor());
  for (NodeId id = static_cast<NodeId>(graph_.port_count()); id < graph_.nodes().size(); ++id) {
    const mesh::Node& node = graph_.nodes()[id];
    if (is_one_product(node)) plan_.layers[id].step_size = size * static_cast<float>(node.in);
  }
}

void Planner::plan_arrivals() {
  std::vector<NodeId> front;
  std::vector<bool> is_reached(graph_.nodes().size());
  for (NodeId port = 0; port < graph_.port_count(); ++port) front.push_back(port);
  for (std::uint32_t ticks = 0; !front.empty(); ++ticks) {
    std::vector<NodeId> next;
    for (const NodeId id : front) {
      if (is_reached[id]) continue;
      is_reached[id] = true;
      plan_.layers[id].arrival = ticks;
      for (const std::uint32_t e : graph_.nodes()[id].readers) next.push_back(graph_.edges()[e].to);
    }
    front = std::move(next);
  }
  for (const NodeId output : graph_.outputs()) plan_.layers[output].arrival = plan_.latency;
}

/// The longest way from an input, feedback left aside; the last tick where a sample is not held for as long.
void Planner::plan_settled() {
  for (const NodeId id : graph_.order()) {
    if (graph_.nodes()[id].is_port()) continue;
    std::uint32_t& settled = plan_.layers[id].settled;
    for (const std::uint32_t e : graph_.nodes()[id].sources) {
      const mesh::Edge& edge = graph_.edges()[e];
      if (edge.is_feedback || graph_.nodes()[edge.from].is_port()) continue;
      settled = std::max(settled, std::min(plan_.layers[edge.from].settled + 1, plan_.hold - 1));
    }
  }
}

void Planner::plan_delays() {
  if (options_.schedule == Schedule::settle) return;
  for (NodeId id = 0; id < plan_.layers.size(); ++id) {
    LayerPlan& layer = plan_.layers[id];
    if (layer.hops.empty()) continue;
    const Meeting first = plan_.meeting(rule_of(options_).path, id, layer.hops.front(), false);
    layer.delay = static_cast<std::uint32_t>(first.age + first.back);
  }
  // Tied weights move with the last of their users.
  for (const TiedGroup& group : plan_.tied)
    for (const NodeId user : group.users)
      plan_.layers[group.owner].delay = std::max(plan_.layers[group.owner].delay, plan_.layers[user].delay);
}

/// Layers whose values depend on when they fire, beside what they read: state that counts ticks and loops, and all
/// before and behind them.
std::vector<bool> moving_layers(const mesh::Graph& graph) {
  std::vector<NodeId> starts;
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id)
    if (graph.is_in_loop(id) || graph.nodes()[id].layer->counts_ticks()) starts.push_back(id);
  std::vector<bool> moves(graph.nodes().size());
  for (const bool is_back : {false, true}) {
    std::vector<bool> is_reached(graph.nodes().size());
    std::vector<NodeId> front = starts;
    while (!front.empty()) {
      const NodeId id = front.back();
      front.pop_back();
      if (is_reached[id]) continue;
      is_reached[id] = moves[id] = true;
      for (const std::uint32_t e : is_back ? graph.nodes()[id].sources : graph.nodes()[id].readers)
        front.push_back(is_back ? graph.edges()[e].from : graph.edges()[e].to);
    }
  }
  return moves;
}

/// A settled layer d links behind an input, on all ways, publishes the same from tick d on, until weights move. The
/// ticks before it would publish what no error and nobody meets.
void Planner::plan_windows() {
  if (options_.schedule != Schedule::settle || plan_.hold < graph_.settle_ticks()) return;
  for (NodeId id = static_cast<NodeId>(graph_.port_count()); id < graph_.nodes().size(); ++id)
    if (graph_.nodes()[id].layer->is_observer() || graph_.nodes()[id].layer->handles_mail()) return;
  const std::vector<bool> moves = moving_layers(graph_);
  plan_.windows.resize(graph_.nodes().size());
  for (const NodeId id : graph_.order()) {
    if (graph_.nodes()[id].is_port() || moves[id]) continue;
    FiringWindow window{UINT32_MAX, 0};
    for (const std::uint32_t e : graph_.nodes()[id].sources) {
      const NodeId source = graph_.edges()[e].from;
      const bool is_port = graph_.nodes()[source].is_port();
      window.first = std::min(window.first, is_port ? 0 : plan_.windows[source].first + 1);
      window.last = std::max(window.last, is_port ? 0 : plan_.windows[source].last + 1);
    }
    plan_.windows[id] = window;
  }
}

}  // namespace

RingSizes ring_sizes(const mesh::Graph& graph, const LearningOptions& options, std::uint32_t latency,
                     std::uint32_t depth) noexcept {
  std::uint64_t chunk = kChunk;
  for (const NodeId node : graph.outputs())
    if (targets_of(options.loss) == LossTargets::values || options.late != Late::none)
      chunk = std::clamp(kTargetValues / (std::max<std::uint64_t>(options.learners, 1) * graph.nodes()[node].width),
                         kLeastChunk, chunk);
  const std::uint64_t late = options.late == Late::none ? 0 : options.patience;
  return {chunk,
          std::bit_ceil<std::uint64_t>(chunk + latency + 2 * std::uint64_t{std::max(depth, kLeastDepth)} + 2 + late)};
}

bool is_one_product(const mesh::Node& node) noexcept {
  const auto& parameters = node.layer->parameters();
  if (parameters.empty() || !parameters[0].is_matrix() || !node.owners.empty()) return false;
  if (std::count_if(parameters.begin(), parameters.end(), [](const auto& each) { return each.is_matrix(); }) != 1)
    return false;
  // Each value of the input is multiplied once by each row.
  const auto rows = static_cast<double>(parameters[0].out);
  return node.layer->vocabulary_size() == 0 && node.layer->multiply_adds() == rows * static_cast<double>(node.in);
}

Meeting LearningPlan::meeting(ErrorPath path, NodeId node, const Hop& hop, bool settled) const noexcept {
  const std::int64_t distance = hop.distance;
  if (path == ErrorPath::direct) return {std::min<std::int64_t>(distance, 1), distance};
  if (path != ErrorPath::local) return {distance, distance};
  if (settled) return {};
  const auto early = static_cast<std::int64_t>(latency) - static_cast<std::int64_t>(layers[node].arrival);
  return {-early, early};
}

Result<LearningPlan> LearningPlan::build(const mesh::Graph& graph, std::size_t sessions,
                                         const LearningOptions& options) {
  LearningPlan plan;
  Planner planner(graph, options, plan);
  WEFT_CHECK(planner.find_latency(sessions));
  planner.plan_hops();
  planner.plan_tied();
  planner.plan_moves();
  WEFT_CHECK(planner.plan_traces());
  planner.plan_steps();
  planner.plan_arrivals();
  planner.plan_settled();
  planner.plan_delays();
  planner.plan_windows();
  const RingSizes sizes = ring_sizes(graph, options, plan.latency, plan.depth);
  plan.chunk = sizes.chunk;
  plan.ring = sizes.ring;
  return plan;
}

}  // namespace weft::learning
