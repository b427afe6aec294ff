// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/anomaly.hpp"
#include "learning/drift/drift_options.hpp"
#include "learning/lora.hpp"
#include "learning/past/past_options.hpp"
#include "learning/unit_renewal.hpp"
#include "learning/weight_perturbation.hpp"
#include "learning/weight_pull.hpp"

#include "kernels/loss.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rate_schedule.hpp"

#include "core/option_row.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::learning {

/// Rules by which errors reach the layers (docs/learning.md gives their equations).
enum class Rule : int {
#define WEFT_RULE(name) name,
#include "learning/rules/rules.def"
#undef WEFT_RULE
};
std::string_view name(Rule rule) noexcept;
std::optional<Rule> parse_rule(std::string_view text) noexcept;
std::vector<std::string_view> rule_names();

/// settle: hold a sample until it has reached the outputs, then learn. pipelined: a new sample every tick; targets
/// travel back one link a tick and meet the activations of their own sample in each layer's history.
enum class Schedule : int { settle, pipelined };
std::string_view name(Schedule schedule) noexcept;
std::optional<Schedule> parse_schedule(std::string_view text) noexcept;

/// Learning from a target that comes after the answer (Learner::teach): through the activations that were kept of the
/// sample, or by showing the sample anew.
enum class Late : int { none, meet, again };
std::string_view name(Late late) noexcept;

/// Compensation for the steps by which errors come late to a pipelined layer (docs/learning.md): a share of each
/// gradient counts at once, the weights are those that the velocity leads to, or both.
enum class DelayCompensation : int { none, spike, prediction, both };
std::string_view name(DelayCompensation compensation) noexcept;

/// Function of the feedback of target propagation, after its matrix.
enum class Feedback : int { linear, tanh };

using kernels::Loss;
using kernels::LossTargets;
using kernels::parse_loss;

using kernels::Clip;
std::string_view name(Clip clip) noexcept;

using kernels::OptimizerKind;
using kernels::OptimizerOptions;
std::string_view name(OptimizerKind kind) noexcept;

using kernels::RateSchedule;
using kernels::RateScheduleKind;
std::string_view name(RateScheduleKind kind) noexcept;

struct LearningOptions {
  Rule rule = Rule::backprop;
  Schedule schedule = Schedule::settle;
  Loss loss = Loss::cross_entropy;
  float delta = 1.0f;                  // of losses that have it
  std::vector<std::uint32_t> heads{};  // of losses with a label each: values of an output that belong to it
  OptimizerOptions optimizer{};
  RateSchedule rate_schedule{};  // of the learning rate, by each layer's count of updates
  std::uint32_t horizon =
      0;  // ticks an error travels back; 0: until it has reached every layer, and 8 more with hidden state
  std::uint32_t hold = 0;  // ticks a sample is held (settle); 0: the network's latency
  /// Distance of the output's target from its activation, in gradients; gap: factor of the wanted output (one-hot row
  /// or values). 0: the rule's default, 5 for gap and 1 for the others.
  float output_step = 0.0f;
  float feedback_scale = 0.0f;  // standard deviation of feedback weights times sqrt(fan-in); 0: the rule's default
  Feedback feedback = Feedback::linear;
  float step_limit = 0.0f;          // of lr times the square of a layer's input; 0: the rule's default
  float displacement_limit = 0.0f;  // rms of a displacement; 0: the rule's default
  float activation_limit = 0.0f;    // rms of a hidden layer's output above which targets lie nearer to 0; 0: as above
  float gradient_limit = 0.0f;      // norm of the gradients of a layer that is no single product; 0: as above
  float inverse_lr = 0.02f;         // of learned inverses
  float inverse_noise = 0.1f;       // standard deviation of what is added to their samples
  std::size_t learners = 1;         // number of sessions that learn, from the first
  Late late = Late::none;           // not none: samples may be observed now and taught later
  std::uint32_t patience = 32;      // samples that may enter between an answer and its target (late)
  DelayCompensation delay_compensation = DelayCompensation::none;
  bool weights = false;  // samples may have weights of their own, which `learn` takes
  bool traces = false;   // gradients go into eligibility traces, by which bounded steps are made (TraceSignal)
  DriftOptions drift{};
  AnomalyOptions anomaly{};
  PlasticityOptions plasticity{};
  ReplayOptions replay{};
  ConsolidationOptions consolidation{};
  RenewalOptions renew{};
  PerturbationOptions perturb{};
  LoraOptions lora{};
  bool operator==(const LearningOptions&) const = default;
};

/// True where answers of before are compared with those of now.
bool has_guides(const LearningOptions& options) noexcept;
/// Learners as the rows of an update: one for each stored sample too.
LearningOptions with_replayed_rows(LearningOptions options);

/// The rule's own defaults in place of zeros.
LearningOptions with_defaults(LearningOptions options) noexcept;

/// Options outside their bounds, that contradict each other, or a rate schedule that lacks a number.
/// @error out_of_range, invalid_argument: naming key and values
Status check_options(const LearningOptions& options);

/// Options of the section "learning"; each is declared in options.cpp.
const std::vector<OptionRow>& learning_rows();

/// Reads the section "learning" of a network file. @error names the path ("learning.optimizer.lr")
Result<LearningOptions> read_learning(std::string_view json);
/// The section's JSON; reads back equal.
std::string write_learning(const LearningOptions& options);

}  // namespace weft::learning
