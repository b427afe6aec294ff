// SPDX-License-Identifier: Apache-2.0

#include "learning/learner.hpp"

#include "capi/internal/arguments.hpp"
#include "capi/internal/objects.hpp"

#include "learning/one_sample.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace weft::capi {
namespace {

Outcome learn_one(weft_learner* learner, const float* x, std::size_t x_count, learning::Target target) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_TRY(const auto values, array_of(x, x_count, "x"));
    const mesh::NetworkSpec& spec = of.state.mesh().spec();
    if (spec.inputs.size() != 1 || spec.outputs.size() != 1)
      return fail(Errc::invalid_argument, "one sample alone: a network of " + std::to_string(spec.inputs.size()) +
                                              " inputs and " + std::to_string(spec.outputs.size()) +
                                              " outputs, where one each is needed");
    const mesh::RunInput input{spec.inputs[0].name, values};
    target.output = spec.outputs[0].name;
    return of.change([&](auto& to) { return to.learn({&input, 1}, {&target, 1}, 1); });
  });
}

/// `ask`: score_one by label or values.
template <class Ask>
Outcome score_one(weft_learner* learner, const float* x, std::size_t x_count, float* out_score, Ask&& ask) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_score, "out_score"));
    WEFT_TRY(const auto given, array_of(x, x_count, "x"));
    WEFT_TRY(*out_score, ask(std::as_const(of.learner()), given));
    return {};
  });
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_learner_build(weft_mesh* mesh, const char* json, weft_learner** out_learner) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_learner, "out_learner"));
    WEFT_TRY(mesh::Mesh* const own, of.state.own_mesh("a learner", "the agent has its own"));
    if (of.state.attached) return fail(Errc::invalid_argument, "a learner drives the mesh already; one at a time can");
    std::string section = json ? json : own->spec().learning;
    if (section.empty()) section = "{}";
    WEFT_TRY(auto options, learning::read_learning(section));
    WEFT_TRY(auto built, learning::Learner::build(*own, std::move(options)));
    auto shared = std::static_pointer_cast<MeshState>(of.shared);
    return hand_out(std::make_unique<LearnerObject>(std::move(shared), std::move(built), std::move(section)),
                    out_learner);
  });
}

weft_status weft_learner_destroy(weft_learner* learner) { return destroy<LearnerObject>(learner); }

weft_status weft_learner_learn(weft_learner* learner, const weft_input* inputs, size_t input_count,
                               const weft_target* targets, size_t target_count, uint64_t samples) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_TRY(const auto from, inputs_of(inputs, input_count));
    WEFT_TRY(const auto wanted, targets_of(targets, target_count));
    return of.change([&](auto& to) { return to.learn(from.span(), wanted.span(), samples); });
  });
}

weft_status weft_learner_drain(weft_learner* learner) {
  return with<LearnerObject>(
      learner, [&](LearnerObject& of) -> Outcome { return of.change([](auto& to) { return to.drain(); }); });
}

weft_status weft_learner_predict(weft_learner* learner, const weft_input* inputs, size_t input_count, size_t rows,
                                 const weft_output* outputs, size_t output_count, size_t session) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_TRY(const auto from, inputs_of(inputs, input_count));
    WEFT_TRY(const auto to, outputs_of(outputs, output_count));
    const auto begin = session == WEFT_NO_SESSION ? std::nullopt : std::optional(session);
    return of.learner().predict(from.span(), rows, to.span(), begin);
  });
}

weft_status weft_learner_predict_one(weft_learner* learner, const float* x, size_t x_count, float* y, size_t y_count) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_TRY(const auto from, array_of(x, x_count, "x"));
    WEFT_TRY(const auto to, array_of(y, y_count, "y"));
    return learning::predict_one(of.learner(), from, to);
  });
}

weft_status weft_learner_learn_one(weft_learner* learner, const float* x, size_t x_count, uint32_t label) {
  return learn_one(learner, x, x_count, {.output = {}, .labels = {&label, 1}}).code();
}

weft_status weft_learner_learn_one_values(weft_learner* learner, const float* x, size_t x_count, const float* values,
                                          size_t value_count) {
  return guarded([&]() -> Outcome {
    WEFT_TRY(const auto wanted, array_of(values, value_count, "values"));
    return learn_one(learner, x, x_count, {.output = {}, .values = wanted});
  });
}

weft_status weft_learner_score_one(weft_learner* learner, const float* x, size_t x_count, uint32_t label,
                                   float* out_score) {
  return score_one(learner, x, x_count, out_score,
                   [&](const learning::Learner& of, std::span<const float> given) {
                     return learning::score_one(of, given, label);
                   })
      .code();
}

weft_status weft_learner_score_one_values(weft_learner* learner, const float* x, size_t x_count, const float* values,
                                          size_t value_count, float* out_score) {
  return guarded([&]() -> Outcome {
    WEFT_TRY(const auto wanted, array_of(values, value_count, "values"));
    return score_one(learner, x, x_count, out_score, [&](const learning::Learner& of, std::span<const float> given) {
      return learning::score_one(of, given, wanted);
    });
  });
}

weft_status weft_learner_observe(weft_learner* learner, const weft_input* inputs, size_t input_count,
                                 uint64_t* out_ticket) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_CHECK(check_out(out_ticket, "out_ticket"));
    WEFT_TRY(const auto from, inputs_of(inputs, input_count));
    WEFT_TRY(*out_ticket, of.change([&](auto& to) { return to.observe(from.span()); }));
    return {};
  });
}

weft_status weft_learner_answer(weft_learner* learner, uint64_t ticket, const char* output, float* values,
                                size_t capacity, size_t* out_needed) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_TRY(const std::string_view name, text_of(output, "output"));
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(values, capacity, "values"));
    WEFT_TRY(const auto found, of.learner().answer(ticket, name));
    return copy_out(found, values, capacity, out_needed);
  });
}

weft_status weft_learner_teach(weft_learner* learner, uint64_t ticket, const weft_target* targets,
                               size_t target_count) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_TRY(const auto wanted, targets_of(targets, target_count));
    return of.change([&](auto& to) { return to.teach(ticket, wanted.span()); });
  });
}

weft_status weft_learner_forgo(weft_learner* learner, uint64_t ticket) {
  return with<LearnerObject>(
      learner, [&](LearnerObject& of) -> Outcome { return of.change([&](auto& to) { return to.forgo(ticket); }); });
}

weft_status weft_learner_expired(weft_learner* learner, uint64_t* tickets, size_t capacity, size_t* out_needed) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(tickets, capacity, "tickets"));
    return copy_out(of.learner().expired(), tickets, capacity, out_needed);
  });
}

weft_status weft_learner_scores(weft_learner* learner, weft_score* scores, size_t capacity, size_t* out_needed) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    WEFT_TRY(const auto buffer, array_of(scores, capacity, "scores"));
    const auto found = of.learner().scores();
    Outcome outcome;
    if (is_size_only(found.size(), scores, capacity, out_needed, outcome)) return outcome;
    std::transform(found.begin(), found.end(), buffer.begin(), [](const learning::Score& score) {
      return weft_score{score.sample, score.learner, score.prediction, score.label,
                        score.loss,   score.token,   score.anomaly};
    });
    return {};
  });
}

weft_status weft_learner_clear_scores(weft_learner* learner) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    of.learner().clear_scores();
    return {};
  });
}

weft_status weft_learner_count(weft_learner* learner, weft_learner_counts* out_counts) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    const learning::Learner& learned = of.learner();
    const learning::LateCounts late = learned.late_counts();
    weft_learner_counts counts{};
    counts.samples = learned.samples();
    counts.scored = learned.scored();
    counts.observed = late.observed;
    counts.taught = late.taught;
    counts.forgone = late.forgone;
    counts.expired = late.expired;
    counts.hold = learned.hold();
    counts.latency = learned.latency();
    counts.ticks_per_sample = learned.ticks_per_sample();
    return give_struct(counts, out_counts, "out_counts");
  });
}

weft_status weft_learner_measure(weft_learner* learner, int is_on) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    auto& monitor = of.state.monitor;
    if (is_on && !monitor) monitor.emplace(of.learner());
    if (monitor) monitor->measure(is_on != 0);
    return {};
  });
}

weft_status weft_learner_diagnostics(weft_learner* learner, weft_layer_diagnostics* layers, size_t capacity,
                                     size_t* out_needed) {
  return with<LearnerObject>(learner, [&](LearnerObject& of) -> Outcome {
    std::vector<learning::LayerDiagnostics> found;
    if (of.state.monitor) found = of.state.monitor->read();
    Outcome outcome;
    WEFT_TRY(const std::size_t stride, stride_of(layers, capacity, "layers"));
    if (is_size_only(found.size(), layers, capacity, out_needed, outcome)) return outcome;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const learning::LayerDiagnostics& layer = found[i];
      weft_layer_diagnostics own{};
      own.at = {layer.at.z, layer.at.y, layer.at.x, layer.at.l};
      own.error = layer.error;
      own.budget = layer.budget.value_or(-1.0f);
      own.update = layer.update;
      own.relative_update = layer.relative_update;
      own.weight = layer.weight;
      own.error_age = layer.error_age;
      auto* const to = reinterpret_cast<char*>(layers) + i * stride;
      std::memcpy(to, &stride, sizeof stride);
      WEFT_CHECK(give_bytes(&own, to, sizeof own, "layers"));
    }
    return {};
  });
}
