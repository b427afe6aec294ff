// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/target_trainer.hpp"

#include "mesh/network/source_combine.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/linear.hpp"

#include "core/aligned_buffer.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <string>

namespace weft::mesh {
namespace {

/// Memory for one row of a layer's operands.
struct Row {
  explicit Row(std::size_t width) : values(std::max<std::size_t>(width, 1)), size(width) {}
  kernels::MatrixView view() noexcept { return {size ? values.data() : nullptr, 1, size, size}; }
  AlignedBuffer<float> values;
  std::size_t size;
};

/// Refuses mail that is no target for a session of the layer.
Status check_target(const Observation& seen, const Mail& mail, const Node& node, NodeId id, const std::string& object) {
  if (mail.type != MessageType::target)
    return fail(Errc::unsupported, node.object + ": a layer of Weft's own handles targets, no other mail");
  if (mail.number >= seen.output.rows)
    return fail(Errc::out_of_range,
                object + "session " + std::to_string(mail.number) + " of " + std::to_string(seen.output.rows));
  if (mail.values.size() != node.layer->out())
    return fail(Errc::shape_mismatch, object + std::to_string(mail.values.size()) + " values where " +
                                          std::to_string(node.layer->out()) + " are expected");
  if (!std::isfinite(mail.rate) ||
      !std::all_of(mail.values.begin(), mail.values.end(), [](float v) { return std::isfinite(v); }))
    return fail(Errc::not_finite, object + "a value is not finite");
  if (!seen.weights->learns(id))
    return fail(Errc::unsupported, object + "the layer has no master weights, so it does not learn");
  return {};
}

/// w -= rate * gradient, parameter by parameter.
Status descend(WeightStore& weights, NodeId node, const std::vector<float*>& places, float rate,
               const std::string& object) {
  auto parameters = weights.of(node);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec& spec = *parameters[i].spec;
    std::vector<float> values = weights.read(parameters[i]);
    Row gradient(values.size());
    if (spec.is_matrix())
      kernels::unpack_panels({places[i], spec.out, spec.in}, {gradient.values.data(), spec.out, spec.in, spec.in});
    else
      std::copy_n(places[i], values.size(), gradient.values.data());
    for (std::size_t j = 0; j < values.size(); ++j) {
      const float step = rate * gradient.values.data()[j];
      values[j] -= step;
    }
    WEFT_CHECK(weights.write(parameters[i], values, object));
  }
  return {};
}

}  // namespace

Status TargetTrainer::check(const Graph& graph, NodeId node) {
  const Node& trained = graph.nodes()[node];
  const bool is_tied =
      !trained.owners.empty() || std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& other) {
        return std::find(other.owners.begin(), other.owners.end(), node) != other.owners.end();
      });
  if (is_tied) return fail(Errc::unsupported, trained.object + ": it shares its weights, so no target can move them");
  if (trained.layer->parameters().empty())
    return fail(Errc::unsupported, trained.object + ": it has no weights that a target could move");
  return {};
}

void TargetTrainer::observe(const Observation& seen, CommandSink&) {
  seen.cell->collect_mail(seen.tick);
  CellMail& box = *seen.cell->mail();
  for (MailPointer mail = box.next(level_, seen.tick); mail; mail = box.next(level_, seen.tick)) {
    if (mail->deadline != 0 && seen.tick > mail->deadline)
      mail->finish(seen.tick, fail(Errc::timed_out, graph_.nodes()[node_].object + ": the deadline has passed"));
    else
      handle(seen, *mail);
  }
}

// As of an actor's handler: what the layer throws is a fault of its cell, and the answer to the message.
void TargetTrainer::handle(const Observation& seen, Mail& mail) {
  try {
    mail.finish(seen.tick, take(seen, mail));
  } catch (const std::exception& error) {
    mail.finish(seen.tick, threw(error.what()));
    throw;
  } catch (...) {
    mail.finish(seen.tick, threw(""));
    throw;
  }
}

Status TargetTrainer::threw(std::string_view what) const noexcept {
  try {
    return fail(Errc::internal, graph_.nodes()[node_].object + ", target: its layer threw" +
                                    (what.empty() ? "" : ": ") + std::string(what));
  } catch (const std::bad_alloc&) {
    return fail(Errc::internal, "layer threw");  // a text that needs no memory
  }
}

Status TargetTrainer::take(const Observation& seen, const Mail& mail) {
  const Node& node = graph_.nodes()[node_];
  const Layer& layer = *node.layer;
  const std::string object = node.object + ", target: ";
  WEFT_CHECK(check_target(seen, mail, node, node_, object));

  // The layer fires once more, for this row alone, and leaves what its backward needs.
  const std::size_t session = mail.number;
  const auto row_of = [&](const kernels::MatrixView& rows) {
    return kernels::ConstMatrixView(
        kernels::MatrixView{rows.data ? rows.row(session) : nullptr, 1, rows.cols, rows.stride});
  };
  Row x(layer.in()), z(layer.out()), y(layer.out()), cache(layer.cache_size()), hidden(layer.state_size());
  Row scratch(layer.scratch_size()), past(layer.state_size());
  combine_sources(
      *seen.stream, graph_, node, [&](const Edge& edge) { return row_of(seen.state->output(edge.from, seen.tick)); },
      x.view());
  if (past.size) {
    const auto before = row_of(seen.state->hidden(node_, seen.tick));
    std::copy_n(before.row(0), past.size, past.values.data());
  }
  const ConstWeights weights = seen.weights->backward_view(node_);
  ForwardArgs forward;
  forward.weights = seen.weights->view(node_);
  forward.x = x.view();
  if (layer.needs_preactivation()) forward.z = z.view();
  forward.y = y.view();
  forward.cache = cache.view();
  forward.state = past.view();
  forward.next_state = hidden.view();
  forward.workspace = seen.workspace;
  layer.forward(*seen.stream, forward);

  std::vector<AlignedBuffer<float>> gradients;
  std::vector<float*> places;
  for (const ParameterSpec& parameter : layer.parameters()) {
    places.push_back(gradients.emplace_back(parameter.stored_size()).data());
    std::fill_n(places.back(), parameter.stored_size(), 0.0f);
  }
  BackwardArgs backward;
  backward.weights = weights;
  backward.x = forward.x;
  backward.z = forward.z;
  Row dy(layer.out());
  for (std::size_t j = 0; j < layer.out(); ++j) dy.values.data()[j] = y.values.data()[j] - mail.values[j];
  backward.y = forward.y;
  backward.cache = forward.cache;
  backward.state = forward.state;
  backward.dy = dy.view();
  backward.gradients.data = places.data();
  backward.scratch = scratch.view();
  backward.workspace = seen.workspace;
  layer.backward(*seen.stream, backward);

  return descend(*seen.weights, node_, places, mail.rate, object);
}

}  // namespace weft::mesh
