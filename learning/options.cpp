// SPDX-License-Identifier: Apache-2.0

#include "learning/options.hpp"

#include "learning/internal/anomaly_table.hpp"
#include "learning/internal/drift_table.hpp"
#include "learning/internal/lora_table.hpp"
#include "learning/internal/optimizer_options.hpp"
#include "learning/internal/past_tables.hpp"
#include "learning/internal/perturbation_table.hpp"
#include "learning/internal/unit_renewal.hpp"
#include "learning/losses.hpp"
#include "learning/rules/rule.hpp"

#include "core/option_table.hpp"

#include <string>
#include <vector>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kSchedules{"settle", "pipelined"};
const std::vector<std::string_view> kFeedbacks{"linear", "tanh"};
const std::vector<std::string_view> kLates{"none", "meet", "again"};
const std::vector<std::string_view> kDelayCompensations{"none", "spike", "prediction", "both"};

using LearningTable = OptionTable<LearningOptions>;

template <class Has>
std::vector<std::string_view> losses_where(const Has& has) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kernels::kLossCount; ++i)
    if (has(static_cast<Loss>(i))) names.push_back(name(static_cast<Loss>(i)));
  return names;
}

template <class Has>
std::vector<std::string_view> rules_where(const Has& has) {
  std::vector<std::string_view> names;
  for (const std::string_view rule : rule_names())
    if (has(rule_of(*parse_rule(rule)))) names.push_back(rule);
  return names;
}

/// "loss=mse|mae", for a row's conditions.
std::string condition(std::string text, const std::vector<std::string_view>& values) {
  for (const std::string_view value : values) text.append(text.back() == '=' ? "" : "|").append(value);
  return text;
}

/// "rule=gap|dfa": the rules that send displacements.
std::string_view rules_with_displacements() {
  static const std::string rules =
      condition("rule=", rules_where([](const RuleDefinition& rule) { return rule.path != ErrorPath::gradients; }));
  return rules;
}

std::vector<LearningTable::Field> step_fields() {
  using O = LearningOptions;
  static const std::string with_delta =
      condition("loss=", losses_where([](Loss loss) { return setting_of(loss) == kernels::LossSetting::delta; }));
  static const std::string with_heads = condition("loss=", loss_names(LossTargets::head_labels));
  return {
      option("rule", &O::rule,
             {.names = rule_names(), .is_always_written = true, .meaning = "how errors reach the layers"}),
      option("schedule", &O::schedule,
             {.names = kSchedules,
              .is_always_written = true,
              .meaning = "hold each sample until settled, or a new one every tick"}),
      option("loss", &O::loss,
             {.names = losses_where([](Loss) { return true; }),
              .is_always_written = true,
              .meaning = "what the outputs are measured by"}),
      option(
          "delta", &O::delta,
          {.low = 1e-6, .high = 1e6, .meaning = "distance up to which the loss is a square", .only_with = with_delta}),
      option("heads", &O::heads,
             {.low = 1,
              .high = 1u << 24,
              .fewest = 1,
              .most = 65536,
              .is_needed = true,
              .unit = "values",
              .meaning = "widths of the groups of an output's values that have a label each, in their order",
              .only_with = with_heads}),
      section_option("optimizer", &O::optimizer, optimizer_table(),
                     {.is_always_written = true, .meaning = "how weights move"}),
      section_option("rate_schedule", &O::rate_schedule, rate_table(),
                     {.meaning = "course of the learning rate, by each layer's count of updates"}),
      option("horizon", &O::horizon,
             {.low = 0,
              .high = 1024,
              .is_always_written = true,
              .unit = "links",
              .meaning = "links that an error travels back; 0: until every layer was reached, and 8 more where errors "
                         "go through hidden state"}),
      option("hold", &O::hold,
             {.low = 0,
              .high = 1u << 20,
              .is_always_written = true,
              .unit = "ticks",
              .meaning = "time that a sample is held; 0: as long as the longest path without feedback",
              .applies = "schedule=settle"}),
  };
}

std::vector<LearningTable::Field> delay_fields() {
  using O = LearningOptions;
  return {option("delay_compensation", &O::delay_compensation,
                 {.names = kDelayCompensations,
                  .meaning = "what makes up for the ticks that errors of a pipelined network take to a layer, with an "
                             "optimiser of velocities: a share of each gradient at once (`spike`), weights that are "
                             "ahead by the velocity (`prediction`), or both",
                  .applies = "schedule=pipelined"})};
}

std::vector<LearningTable::Field> feedback_fields() {
  using O = LearningOptions;
  static const std::string with_feedback =
      condition("rule=", rules_where([](const RuleDefinition& r) { return r.feedback != FeedbackMatrices::none; }));
  static const std::string with_feedback_per_layer =
      condition("rule=", rules_where([](const RuleDefinition& rule) { return is_per_layer(rule.feedback); }));
  return {
      option("output_step", &O::output_step,
             {.low = 0,
              .high = 1e6,
              .is_always_written = true,
              .meaning = "displacement of the output's target, in gradients; 0: the rule's default",
              .applies = rules_with_displacements()}),
      option("feedback_scale", &O::feedback_scale,
             {.low = 0,
              .high = 1e6,
              .is_always_written = true,
              .meaning = "standard deviation of the feedback weights times sqrt(fan-in); 0: the rule's default",
              .applies = with_feedback}),
      option("feedback", &O::feedback,
             {.names = kFeedbacks,
              .meaning = "function of the feedback: linear, or tanh with the difference correction through it",
              .applies = with_feedback_per_layer}),
  };
}

std::vector<LearningTable::Field> limit_fields() {
  using O = LearningOptions;
  return {
      option("step_limit", &O::step_limit,
             {.low = 0,
              .high = 1e20,
              .meaning = "largest product of the learning rate and the squared norm of a layer's input: above it the "
                         "step shrinks; 0: the rule's default"}),
      option("displacement_limit", &O::displacement_limit,
             {.low = 0,
              .high = 1e20,
              .meaning = "largest rms of a displacement: above it it shrinks; 0: the rule's default",
              .applies = rules_with_displacements()}),
      option("activation_limit", &O::activation_limit,
             {.low = 0,
              .high = 1e20,
              .meaning = "rms of a hidden layer's output above which its target is pulled back by a tenth of the rest; "
                         "0: the rule's default",
              .applies = rules_with_displacements()}),
      option("gradient_limit", &O::gradient_limit,
             {.low = 0,
              .high = 1e20,
              .meaning = "largest norm of the gradients of a layer that is more than one product with its input, where "
                         "`clip` is `none`; 0: the rule's default"}),
  };
}

std::vector<LearningTable::Field> inverse_fields() {
  using O = LearningOptions;
  static const std::string with_inverses =
      condition("rule=", rules_where([](const RuleDefinition& r) { return r.feedback == FeedbackMatrices::learned; }));
  return {
      option("inverse_lr", &O::inverse_lr,
             {.low = 0, .high = 1000, .meaning = "learning rate of the inverses", .applies = with_inverses}),
      option("inverse_noise", &O::inverse_noise,
             {.low = 0,
              .high = 1000,
              .meaning = "standard deviation of the noise that inverses learn with",
              .applies = with_inverses}),
  };
}

std::vector<LearningTable::Field> trace_fields() {
  return {option("traces", &LearningOptions::traces,
                 {.meaning = "gradients go into eligibility traces, which bounded steps are made of, for learning from "
                             "temporal-difference errors; not with every other option (docs/learning.md)"})};
}

std::vector<LearningTable::Field> sample_fields() {
  using O = LearningOptions;
  return {
      option("learners", &O::learners,
             {.low = 1,
              .high = 65536,
              .is_always_written = true,
              .unit = "sessions",
              .meaning = "sessions that learn, from the first on; the others only compute"}),
      option("late", &O::late,
             {.names = kLates,
              .meaning = "learning from targets that come after the answer: `meet` keeps the activations of each "
                         "sample, `again` its input and shows it anew"}),
      option("patience", &O::patience,
             {.low = 0,
              .high = 65536,
              .unit = "samples",
              .meaning = "samples that may enter between an answer and its target; after them the sample expires",
              .applies = "late=meet|again"}),
      option("weights", &O::weights,
             {.meaning = "samples have weights: factors, not below 0, of their gradients; where `late` is off too"}),
  };
}

std::vector<LearningTable::Field> drift_fields() {
  return {section_option("drift", &LearningOptions::drift, drift_table(),
                         {.meaning = "what looks for changes of the task, and what is done at one"}),
          section_option("anomaly", &LearningOptions::anomaly, anomaly_table(),
                         {.meaning = "scores of samples by how unexpected they are, before they are learned from"})};
}

const OptionTable<PlasticityOptions>& plasticity_table() {
  using O = PlasticityOptions;
  static const OptionTable<PlasticityOptions> table({
      option("pull", &O::pull,
             {.names = {"none", "initial", "fresh"},
              .meaning = "what weights are pulled to: nothing, those that they began with, or ones drawn anew"}),
      option("every", &O::every,
             {.low = 1, .high = 1u << 30, .unit = "samples", .meaning = "samples from one pull to the next"}),
      option("share", &O::share,
             {.low = 0,
              .high = 1,
              .meaning = "of the way to the initial weights, or by which weights shrink before fresh ones are added"}),
      option("scale", &O::scale,
             {.low = 0, .high = 1, .meaning = "of the fresh weights that are added", .only_with = "pull=fresh"}),
  });
  return table;
}

std::vector<LearningTable::Field> plasticity_fields() {
  return {section_option("plasticity", &LearningOptions::plasticity, plasticity_table(),
                         {.meaning = "what keeps a network able to learn for long"})};
}

std::vector<LearningTable::Field> past_fields() {
  return {section_option("replay", &LearningOptions::replay, replay_table(),
                         {.meaning = "stored samples that each update learns beside new ones"}),
          section_option("consolidation", &LearningOptions::consolidation, consolidation_table(),
                         {.meaning = "what holds weights near those that learned what was before"})};
}

std::vector<LearningTable::Field> renewal_fields() {
  return {section_option("renew", &LearningOptions::renew, renewal_table(),
                         {.meaning = "units of hidden layers that begin anew"})};
}

std::vector<LearningTable::Field> perturbation_fields() {
  return {section_option("perturb", &LearningOptions::perturb, perturbation_table(),
                         {.meaning = "noise in the steps of weights that are of little use"})};
}

std::vector<LearningTable::Field> lora_fields() {
  return {section_option("lora", &LearningOptions::lora, lora_table(),
                         {.meaning = "adapters of low rank, by which matrices move"})};
}

const LearningTable& learning_table() {
  static const LearningTable table(
      joined({step_fields(), feedback_fields(), limit_fields(), inverse_fields(), sample_fields(), delay_fields(),
              trace_fields(), drift_fields(), plasticity_fields(), past_fields(), renewal_fields(),
              perturbation_fields(), lora_fields()}));
  return table;
}

}  // namespace

std::vector<std::string_view> loss_names(LossTargets targets, bool is_any) {
  return losses_where([=](Loss loss) {
    return targets_of(loss) == targets && (!is_any || range_of(loss) == kernels::TargetRange::any);
  });
}
std::string loss_words(LossTargets targets, bool is_any) {
  const std::vector<std::string_view> names = loss_names(targets, is_any);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text.append(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ").append(names[i]);
  return text;
}

std::string_view name(Schedule schedule) noexcept { return kSchedules[static_cast<std::size_t>(schedule)]; }
std::optional<Schedule> parse_schedule(std::string_view text) noexcept {
  return parse_enumerator<Schedule>(kSchedules, text);
}
std::string_view name(Late late) noexcept { return kLates[static_cast<std::size_t>(late)]; }
std::string_view name(DelayCompensation compensation) noexcept {
  return kDelayCompensations[static_cast<std::size_t>(compensation)];
}

namespace {
Status check_delay_compensation(const LearningOptions& options) {
  if (options.delay_compensation == DelayCompensation::none || options.schedule == Schedule::settle) return {};
  const OptimizerOptions& o = options.optimizer;
  const std::string object =
      "learning.delay_compensation: '" + std::string(name(options.delay_compensation)) + "' with ";
  OptimizerOptions shared = o;
  shared.shares = {1.0f, 1.0f};
  if (kernels::step_shares(shared) != shared.shares)
    return fail(Errc::invalid_argument, object + "learning.optimizer.type '" + std::string(name(o.kind)) +
                                            "', which has no velocity; give an optimiser that has one");
  if (o.nesterov)
    return fail(Errc::invalid_argument, object +
                                            "learning.optimizer.nesterov, which counts gradients twice too; give one "
                                            "of the two");
  if (!(o.momentum > 0.0f && o.momentum < 1.0f))
    return fail(Errc::invalid_argument, object + "learning.optimizer.momentum " + number_text(o.momentum) +
                                            "; it needs one above 0 and below 1");
  return {};
}

/// Traces take one gradient a sample, of the present weights, and all of them before the first weight moves.
Status check_traces(const LearningOptions& options) {
  if (!options.traces) return {};
  const auto refuse = [](const std::string& found, const std::string& wanted) {
    return fail(Errc::invalid_argument, "learning.traces: true with learning." + found + "; give " + wanted);
  };
  const auto quoted = [](std::string_view text) { return "'" + std::string(text) + "'"; };
  const OptimizerOptions& o = options.optimizer;
  if (rule_of(options).path != ErrorPath::gradients) return refuse("rule " + quoted(name(options.rule)), "'backprop'");
  if (options.schedule != Schedule::settle) return refuse("schedule " + quoted(name(options.schedule)), "'settle'");
  if (options.late != Late::meet) return refuse("late " + quoted(name(options.late)), "'meet'");
  if (!has_plain_steps(o)) return refuse("optimizer.type " + quoted(name(o.kind)), "'sgd'");
  if (o.weight_decay != 0.0f) return refuse("optimizer.weight_decay " + number_text(o.weight_decay), "0");
  if (o.clip != Clip::none) return refuse("optimizer.clip " + quoted(name(o.clip)), "'none': the step has a bound");
  if (options.step_limit != 0.0f)
    return refuse("step_limit " + number_text(options.step_limit), "0: the step has a bound");
  if (!kernels::is_constant(options.rate_schedule))
    return refuse("rate_schedule " + quoted(name(options.rate_schedule.kind)), "none: the step has a bound");
  // Errors are given, and the weights that they go back through are the layers' own of the same tick.
  if (const LearningOptions usual; options.loss != usual.loss)
    return refuse("loss " + quoted(name(options.loss)), "none: the gradients are given");
  if (options.feedback != Feedback::linear)
    return refuse("feedback " + quoted(kFeedbacks[static_cast<std::size_t>(options.feedback)]),
                  "none: 'backprop' has no feedback weights");
  if (options.delay_compensation != DelayCompensation::none)
    return refuse("delay_compensation " + quoted(name(options.delay_compensation)), "'none': no error comes late");
  return {};
}

/// Samples that are stored have none, and importances are of all samples alike.
Status check_weights(const LearningOptions& options) {
  if (!options.weights || !(options.replay.is_on() || options.consolidation.is_on())) return {};
  return fail(Errc::invalid_argument, std::string("learning.weights: true with learning.") +
                                          (options.replay.is_on() ? "replay" : "consolidation") +
                                          ", whose samples have no weights; give one of the two");
}
}  // namespace

Status check_options(const LearningOptions& options) {
  const OptimizerOptions& o = options.optimizer;
  const RateSchedule& s = options.rate_schedule;
  constexpr float kLargestShare = 0.999999f;
  const struct {
    const char* key;
    float value, least, most;
  } bounds[] = {
      {"optimizer.lr", o.lr, 0.0f, 1000.0f},
      {"optimizer.momentum", o.momentum, 0.0f, 1.0f},
      {"optimizer.dampening", o.dampening, 0.0f, 1.0f},
      {"optimizer.beta1", o.beta1, 0.0f, kLargestShare},
      {"optimizer.beta2", o.beta2, 0.0f, kLargestShare},
      {"optimizer.epsilon", o.epsilon, 1e-20f, 1.0f},
      {"optimizer.weight_decay", o.weight_decay, 0.0f, 1.0f},
      {"optimizer.alpha", o.alpha, 0.0f, kLargestShare},
      {"optimizer.clip_limit", o.clip_limit, 1e-20f, 1e20f},
      {"step_limit", options.step_limit, 0.0f, 1e20f},
      {"displacement_limit", options.displacement_limit, 0.0f, 1e20f},
      {"activation_limit", options.activation_limit, 0.0f, 1e20f},
      {"gradient_limit", options.gradient_limit, 0.0f, 1e20f},
      {"inverse_lr", options.inverse_lr, 0.0f, 1000.0f},
      {"inverse_noise", options.inverse_noise, 0.0f, 1000.0f},
      {"rate_schedule.growth", static_cast<float>(s.growth), 1.0f, 1024.0f},
      {"rate_schedule.end", s.end, 0.0f, 1.0f},
      {"rate_schedule.factor", s.factor, 1e-20f, 1.0f},
      {"rate_schedule.power", s.power, 1e-3f, 100.0f},
  };
  for (const auto& [key, value, least, most] : bounds)
    if (!(value >= least && value <= most))
      return fail(Errc::out_of_range, "learning." + std::string(key) + ": " + number_text(value) + " is not within [" +
                                          number_text(least) + ", " + number_text(most) + "]");
  if (!is_endless(s.kind) && s.updates == 0)
    return fail(Errc::invalid_argument, "learning.rate_schedule.updates: 0; '" + std::string(name(s.kind)) +
                                            "' needs the number of updates that it takes");
  if (options.optimizer.clip == Clip::global_norm && options.schedule == Schedule::pipelined)
    return fail(Errc::invalid_argument,
                "learning.optimizer.clip: 'global_norm' with learning.schedule 'pipelined', where layers learn from "
                "different samples at once; use 'norm', or the schedule 'settle'");
  WEFT_CHECK(check_delay_compensation(options));
  WEFT_CHECK(check_traces(options));
  WEFT_CHECK(check_weights(options));
  WEFT_CHECK(check_drift(options.drift));
  WEFT_CHECK(check_drift_actions(options));
  WEFT_CHECK(anomaly_table().check(options.anomaly, "learning.anomaly"));
  WEFT_CHECK(check_past(options));
  WEFT_CHECK(check_renewal(options));
  WEFT_CHECK(check_perturbation(options));
  WEFT_CHECK(check_lora(options));
  if (options.plasticity.is_on() &&
      (options.late == Late::again || (options.late == Late::meet && options.schedule != Schedule::settle)))
    return fail(Errc::invalid_argument, "learning.plasticity.pull: '" + std::string(name(options.plasticity.pull)) +
                                            "' with learning.late '" + std::string(name(options.late)) +
                                            "', whose samples are learned from at other times; give 'none', or 'meet' "
                                            "with the schedule 'settle'");
  if (takes_errors_only(options.drift.detector.kind) && targets_of(options.loss) == LossTargets::values)
    return fail(Errc::invalid_argument,
                "learning.drift.detector: '" + std::string(name(options.drift.detector.kind)) +
                    "' takes wrong answers, and with learning.loss '" + std::string(name(options.loss)) +
                    "' there are none; give 'adwin', 'kswin' or 'page_hinkley' with input " + "'loss'");
  if (options.drift.is_on() && options.drift.input == DriftInput::error &&
      targets_of(options.loss) == LossTargets::values)
    return fail(Errc::invalid_argument, "learning.drift.input: 'error' with learning.loss '" +
                                            std::string(name(options.loss)) +
                                            "', which knows no wrong answers; give 'loss'");
  if (options.late == Late::meet && options.schedule == Schedule::pipelined &&
      rule_of(options).path == ErrorPath::local)
    return fail(Errc::invalid_argument,
                "learning.late: 'meet' with learning.rule '" + std::string(name(options.rule)) +
                    "' and learning.schedule 'pipelined', where each layer learns before the answer is there and keeps "
                    "no past; use 'again', or the schedule 'settle'");
  return {};
}

bool has_guides(const LearningOptions& options) noexcept {
  return options.replay.has_answers() || options.consolidation.guides();
}

LearningOptions with_replayed_rows(LearningOptions options) {
  options.learners += options.replay.rows();
  return options;
}

LearningOptions with_defaults(LearningOptions options) noexcept {
  const RuleDefinition& rule = rule_of(options);
  // Gradients at a rate that somebody has stated make the steps that they make anywhere.
  bool has_limits = rule.path != ErrorPath::gradients;
  if (options.optimizer.lr == 0.0f) {
    const float own = kernels::default_options(options.optimizer.kind).lr;
    options.optimizer.lr = options.traces ? 1.0f : own != 0.0f ? own : rule.lr;
    has_limits |= !options.traces && own == 0.0f;
  }
  if (options.output_step == 0.0f) options.output_step = rule.output_step;
  if (options.feedback_scale == 0.0f) options.feedback_scale = rule.feedback_scale;
  if (options.step_limit == 0.0f && has_limits) options.step_limit = rule.step_limit;
  if (options.displacement_limit == 0.0f) options.displacement_limit = rule.displacement_limit;
  if (options.gradient_limit == 0.0f) options.gradient_limit = rule.gradient_limit;
  if (options.activation_limit == 0.0f) options.activation_limit = rule.activation_limit;
  return options;
}

const std::vector<OptionRow>& learning_rows() { return learning_table().rows(); }

Result<LearningOptions> read_learning(std::string_view text) {
  LearningOptions options;
  if (text.empty()) return options;
  WEFT_TRY(const auto document, parse_json(text, "learning"));
  WEFT_TRY(JsonReader reader, JsonReader::open(document, "learning"));
  WEFT_CHECK(learning_table().read(reader, options));
  WEFT_CHECK(check_options(options));
  return options;
}

std::string write_learning(const LearningOptions& options) { return learning_table().write(options).dump(); }

}  // namespace weft::learning
