// SPDX-License-Identifier: Apache-2.0

#include "cases.hpp"

#include "learning/rules/rule.hpp"

#include "mesh/network/network_json.hpp"

#include "lossy_networks.hpp"
#include <utility>

namespace weft::learning::test {
namespace {

using kernels::Activation;
using mesh::NetworkBuilder;
using mesh::NetworkSpec;

constexpr Rule kRules[] = {Rule::backprop,    Rule::gap,  Rule::chain,    Rule::fw_dtp,         Rule::dfa,
                           Rule::dtp,         Rule::sdtp, Rule::local_ce, Rule::gap_difference, Rule::chain_original,
                           Rule::gap_original};
constexpr Schedule kSchedules[] = {Schedule::settle, Schedule::pipelined};

// A sanitizer looks for other things and is ten times slower.
#ifdef WEFT_SANITIZED
constexpr std::uint64_t kFew = 20, kSome = 20, kLong = 80;
#else
constexpr std::uint64_t kFew = 30, kSome = 60, kLong = 3000;
#endif

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) (all += all.empty() ? "" : "_") += part;
  return all;
}

void add_rules(std::vector<Case>& all) {
  for (const Rule rule : kRules)
    for (const Schedule schedule : kSchedules) {
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.optimizer.kind = rule == Rule::chain ? OptimizerKind::adamw : OptimizerKind::momentum;
      options.optimizer.lr = 0.01f;
      options.optimizer.weight_decay = 0.001f;
      options.horizon = rule == Rule::backprop ? 9 : 0;
      all.push_back({joined({name(rule), name(schedule)}), mixed_network(3), options, kFew});
      all.back().is_whole = true;
    }
}

/// Gradients whose own steps are shortened.
void add_bounds(std::vector<Case>& all) {
  for (const Schedule schedule : kSchedules) {
    LearningOptions options{.schedule = schedule, .horizon = 5, .step_limit = 0.01f};
    options.optimizer.lr = 0.02f;
    all.push_back({joined({"bounded", name(schedule)}), mixed_network(3), options, kSome});
    all.back().ends_alone = true;
    all.push_back({joined({"bounded_deep", name(schedule)}), deep_network(), options, kFew});
    all.push_back({joined({"bounded_recurrent", name(schedule)}), recurrent_network(3), options, kFew});
  }
}

void add_updates(std::vector<Case>& all) {
  NetworkSpec spec = mixed_network(3);
  spec.layers[1].is_frozen = true;
  spec.layers[2].rate_scale = 0.5f;
  for (const UpdateCase& each : update_cases())
    for (const Schedule schedule : kSchedules)
      if (each.takes(schedule)) {
        all.push_back({joined({each.name, name(schedule)}), spec, each.options(Rule::backprop, schedule)});
        all.back().ends_alone = true;
      }
  for (const UpdateCase& each : update_cases())
    for (const Rule rule : kRules)
      if (rule != Rule::backprop && each.optimizer.clip == Clip::global_norm)
        all.push_back({joined({each.name, name(rule)}), spec, each.options(rule, Schedule::settle)});
}

void add_delays(std::vector<Case>& all) {
  for (const DelayCompensation compensation :
       {DelayCompensation::spike, DelayCompensation::prediction, DelayCompensation::both})
    for (const Rule rule : kRules) {
      // The others are a sum of the two: one rule has them too.
      if (rule != Rule::backprop && compensation != DelayCompensation::both) continue;
      LearningOptions options{.rule = rule, .schedule = Schedule::pipelined, .delay_compensation = compensation};
      options.optimizer.lr = 0.003f;
      options.optimizer.weight_decay = 0.001f;
      all.push_back({joined({"delay", name(compensation), name(rule)}), mixed_network(3), options, kSome});
      all.back().ends_alone = true;
    }
}

/// Layers that carry the derivatives of their past along, alone, in a loop and in a container.
void add_forward(std::vector<Case>& all) {
  const auto spec = [](const char* through_time) {
    return NetworkBuilder("forward", GridShape{1, 1, 4, 1})
        .input("x", 6)
        .layer({0, 0, 0, 0}, "diagonal", 22)
        .option("through_time", std::string(through_time))
        .option("activation", "tanh")
        .from({"x", Coord{0, 0, 2, 0}})
        .dense({0, 0, 1, 0}, 9, Activation::tanh)
        .layer({0, 0, 2, 0}, "diagonal", 10)
        .dense({0, 0, 3, 0}, 6)
        .output("y", {0, 0, 3, 0})
        .seed(6)
        .spec();
  };
  for (const Rule rule : kRules)
    for (const Schedule schedule : kSchedules) {
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.optimizer.lr = 0.01f;
      all.push_back({joined({"forward", name(rule), name(schedule)}), spec("forward"), options, kFew});
      if (rule == Rule::backprop || rule == Rule::dtp)
        all.push_back({joined({"through_state", name(rule), name(schedule)}), spec("backward"), options, kFew});
    }
  const auto gated = [](const char* through_time) {
    return NetworkBuilder("traces", GridShape{1, 1, 4, 1})
        .input("x", 6)
        .layer({0, 0, 0, 0}, "gru", 19)
        .option("through_time", std::string(through_time))
        .from({"x", Coord{0, 0, 2, 0}})
        .dense({0, 0, 1, 0}, 9, Activation::tanh)
        .layer({0, 0, 2, 0}, "lstm", 10)
        .option("through_time", std::string(through_time))
        .dense({0, 0, 3, 0}, 6)
        .output("y", {0, 0, 3, 0})
        .seed(6)
        .spec();
  };
  for (const Rule rule : kRules)
    for (const Schedule schedule : kSchedules) {
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.optimizer.lr = 0.01f;
      const bool is_usual = rule == Rule::backprop || rule == Rule::dfa;
      if (!is_usual && schedule == Schedule::settle) continue;
      all.push_back({joined({"snap1", name(rule), name(schedule)}), gated("snap1"), options, kFew});
      if (is_usual) all.push_back({joined({"eprop", name(rule), name(schedule)}), gated("eprop"), options, kFew});
    }
}

/// Layers with values that jump, which targets pass and gradients do not.
void add_signs(std::vector<Case>& all) {
  const NetworkSpec spec = NetworkBuilder("signs", GridShape{1, 1, 4, 1})
                               .input("x", 6)
                               .dense({0, 0, 0, 0}, 24, Activation::tanh)
                               .layer({0, 0, 1, 0}, "sign")
                               .dense({0, 0, 2, 0}, 20, Activation::tanh)
                               .dense({0, 0, 3, 0}, 6)
                               .output("y", {0, 0, 3, 0})
                               .seed(6)
                               .spec();
  for (const Rule rule : {Rule::fw_dtp, Rule::dtp, Rule::sdtp, Rule::dfa, Rule::local_ce})
    for (const Schedule schedule : kSchedules)
      all.push_back({joined({"sign", name(rule), name(schedule)}), spec, {.rule = rule, .schedule = schedule}, kSome});
}

/// Both sides of each value between dense layers, under every rule.
void add_crelu(std::vector<Case>& all) {
  const NetworkSpec spec = NetworkBuilder("crelu", GridShape{1, 1, 4, 1})
                               .input("x", 6)
                               .dense({0, 0, 0, 0}, 12)
                               .layer({0, 0, 1, 0}, "crelu")
                               .dense({0, 0, 2, 0}, 20, Activation::tanh)
                               .dense({0, 0, 3, 0}, 6)
                               .output("y", {0, 0, 3, 0})
                               .seed(6)
                               .spec();
  for (const Rule rule : kRules)
    for (const Schedule schedule : kSchedules) {
      all.push_back({joined({"crelu", name(rule), name(schedule)}), spec, {.rule = rule, .schedule = schedule}, kFew});
      all.back().options.optimizer.lr = 0.01f;
    }
}

void add_losses(std::vector<Case>& all) {
  for (int i = 0; i < kernels::kLossCount; ++i)
    for (const Rule rule : kRules)
      for (const Schedule schedule : kSchedules) {
        LearningOptions options{.rule = rule,
                                .schedule = schedule,
                                .loss = static_cast<Loss>(i),
                                .optimizer = {.kind = OptimizerKind::sgd, .lr = 0.01f}};
        if (options.loss == Loss::multi_head_cross_entropy) options.heads = kHeads;
        if (options.loss == Loss::huber) options.delta = 0.5f;
        all.push_back({joined({name(options.loss), name(rule), name(schedule)}), two_layers(), options, 40});
      }
}

void add_types(std::vector<Case>& all) {
  for (int i = 0; i < kDtypeCount; ++i)
    for (const Activations activations : {Activations::int8, Activations::float32}) {
      const auto dtype = static_cast<Dtype>(i);
      if (activations == Activations::float32 && !has_integer_kernel(dtype)) continue;
      for (const auto& [rule, schedule] :
           {std::pair{Rule::backprop, Schedule::settle}, {Rule::fw_dtp, Schedule::pipelined}}) {
        LearningOptions options{.rule = rule, .schedule = schedule};
        options.optimizer.lr = 0.01f;
        all.push_back({joined({name(dtype), name(activations), name(rule)}),
                       in_type(mixed_network(3), dtype, activations, true), options, kSome});
      }
    }
}

/// Activations and errors of narrow types, in every other layer or in all but the first of a deep network.
void add_narrow(std::vector<Case>& all) {
  const auto add = [&](const std::string& what, NetworkSpec spec, Dtype outputs, Dtype errors,
                       const LearningOptions& options) {
    for (std::size_t i = 0; i < spec.layers.size(); i += 2) {
      spec.layers[i].activation_dtype = outputs;
      spec.layers[i].gradient_dtype = errors;
    }
    all.push_back({joined({"narrow", what, name(outputs), name(options.rule), name(options.schedule)}), std::move(spec),
                   options, kFew});
    all.back().options.optimizer.lr = 0.01f;
    // Layers that share weights with these are on the host too: all of them.
    all.back().is_mixed = what != "shared";
    all.back().acts = what == "shared";
  };
  for (const Rule rule : kRules)
    for (const Schedule schedule : kSchedules) {
      const LearningOptions options{.rule = rule, .schedule = schedule};
      add("mixed", mixed_network(3), Dtype::fp8_e4m3, Dtype::fp8_e5m2, options);
      if (rule == Rule::backprop || rule == Rule::fw_dtp || rule == Rule::dfa || rule == Rule::local_ce)
        add("deep", deep_network(), Dtype::int8, Dtype::int8, options);
    }
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16, Dtype::int8})
    for (const Schedule schedule : kSchedules)
      for (const Rule rule : {Rule::backprop, Rule::fw_dtp}) {
        add("mixed", mixed_network(3), dtype, dtype, {.rule = rule, .schedule = schedule});
        if (dtype != Dtype::int8) continue;
        add("recurrent", recurrent_network(3), dtype, dtype, {.rule = rule, .schedule = schedule});
        add("shared", shared_network(), dtype, dtype, {.rule = rule, .schedule = schedule});
      }
}

void add_recurrent(std::vector<Case>& all) {
  for (const auto& [dtype, activations] : {std::pair{Dtype::float32, Activations::int8},
                                           {Dtype::int8, Activations::int8},
                                           {Dtype::int8, Activations::float32},
                                           {Dtype::bfloat16, Activations::int8},
                                           {Dtype::int4, Activations::int8},
                                           {Dtype::ternary, Activations::int8}})
    for (const auto& [rule, schedule] : {std::pair{Rule::backprop, Schedule::settle},
                                         {Rule::backprop, Schedule::pipelined},
                                         {Rule::fw_dtp, Schedule::pipelined}}) {
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.optimizer.lr = 0.01f;
      options.horizon = rule == Rule::backprop ? 8 : 0;
      all.push_back({joined({"recurrent", name(dtype), name(activations), name(rule), name(schedule)}),
                     in_type(recurrent_network(3), dtype, activations, false), options, kSome});
    }
}

/// A loop through an average of the past, between layers of three values: each update is of several errors, some of
/// which point away from what a layer gave and teach nothing.
NetworkSpec averaging_network() {
  return NetworkBuilder("averaging", GridShape{1, 1, 4, 1})
      .input("x", 6)
      .dense({0, 0, 0, 0}, 3, Activation::tanh)
      .from({"x", Coord{0, 0, 2, 0}})
      .layer({0, 0, 1, 0}, "leaky_integrator")
      .dense({0, 0, 2, 0}, 3, Activation::tanh)
      .dense({0, 0, 3, 0}, 6)
      .output("y", {0, 0, 3, 0})
      .seed(6)
      .spec();
}

/// Targets of hidden states from tick to tick, and inverses of the maps inside recurrent layers.
void add_state_targets(std::vector<Case>& all) {
  for (const Rule rule : kRules)
    for (const Schedule schedule : kSchedules) {
      if (rule_of(rule).path != ErrorPath::displacements) continue;
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.optimizer.lr = 0.003f;
      all.push_back({joined({"state", name(rule), name(schedule)}), recurrent_network(3), options, kSome});
      // No limit acts here: the two forms of chain are one.
      all.back().ends_alone = rule != Rule::chain_original;
      options.displacement_limit = 3.0f;
      all.push_back({joined({"average", name(rule), name(schedule)}), averaging_network(), options, kSome});
    }
}

/// Layers with linear maps inside them, which learn to be undone.
void add_maps(std::vector<Case>& all) {
  const NetworkSpec spec = mesh::testing_support::must(mesh::read_network(R"({"weft": 2, "seed": 4, "grid": {"x": 6},
 "inputs": {"x": [9]}, "layers": [
  {"at": [0,0,0,0], "type": "dense", "out": 36, "activation": "tanh"},
  {"at": [0,0,1,0], "type": "conv2d", "view": [4, 3, 3], "out": 6, "kernel": 2, "groups": 2, "activation": "relu"},
  {"at": [0,0,2,0], "type": "conv_transposed2d", "out": 2, "kernel": 2, "stride": 2, "activation": "tanh"},
  {"at": [0,0,3,0], "type": "sequential", "view": [4, 8], "layers": [
     {"type": "attention", "heads": 2}, {"type": "swiglu", "hidden": 5}]},
  {"at": [0,0,4,0], "type": "dense", "view": [4, 8], "out": 5, "activation": "silu"},
  {"at": [0,0,5,0], "type": "dense", "view": [20], "out": 6}], "outputs": {"y": [0,0,5,0]}})",
                                                                          "maps"));
  for (const Rule rule : {Rule::dtp, Rule::sdtp})
    for (const Schedule schedule : kSchedules)
      for (const Dtype dtype : {Dtype::float32, Dtype::int8}) {
        LearningOptions options{.rule = rule, .schedule = schedule, .learners = 1};
        options.optimizer.lr = 0.01f;
        all.push_back({joined({"maps", name(dtype), name(rule), name(schedule)}),
                       in_type(spec, dtype, Activations::int8, false), options, kSome});
        all.back().ends_alone = true;
      }
}

void add_shared_weights(std::vector<Case>& all) {
  for (const Rule rule : {Rule::backprop, Rule::fw_dtp, Rule::dfa})
    for (const Schedule schedule : kSchedules) {
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.optimizer.lr = 0.05f;
      all.push_back({joined({"shared", name(rule), name(schedule)}), shared_network(), options});
    }
}

void add_deep(std::vector<Case>& all) {
  for (const Rule rule : kRules) {
    for (const Schedule schedule : kSchedules) {
      all.push_back(
          {joined({"deep", name(rule), name(schedule)}), deep_network(), {.rule = rule, .schedule = schedule}, 60});
      all.back().options.optimizer.lr = 0.02f;
    }
  }
}

/// A layer under test between what it reads and a dense layer, where it does not give the classes itself.
NetworkSpec choosing(const std::string& type, const mesh::Options& options, bool gives_classes = false,
                     Dtype dtype = Dtype::float32) {
  NetworkBuilder builder("choosing", GridShape{1, 1, 3, 1});
  builder.input("x", 6).dense({0, 0, 0, 0}, 16, Activation::tanh);
  builder.layer({0, 0, 1, 0}, type, gives_classes ? 6 : 0);
  for (const auto& [key, value] : options) builder.option(key, value);
  if (dtype != Dtype::float32) builder.dtype(dtype);
  if (gives_classes) return builder.output("y", {0, 0, 1, 0}).seed(3).spec();
  return builder.dense({0, 0, 2, 0}, 6).output("y", {0, 0, 2, 0}).seed(3).spec();
}

/// Layers whose learning is seen: the loss of the largest of six values falls.
void add_choosing(std::vector<Case>& all) {
  const auto add = [&](std::string name, NetworkSpec spec, double falls_to = 0.75, float lr = 0.03f,
                       Schedule schedule = Schedule::settle) {
    LearningOptions options{.schedule = schedule};
    options.optimizer.lr = lr;
    all.push_back({std::move(name), std::move(spec), options, kLong, kLong > 1000 ? falls_to : 0});
  };
  for (const std::string kind : {"standard", "sparsemax", "entmax", "gumbel", "gumbel_straight"}) {
    mesh::Options options{{"kind", kind}, {"groups", 2.0}};
    if (kind.starts_with("gumbel")) options["temperature"] = 0.7, options["kind"] = std::string("gumbel");
    if (kind == "gumbel_straight") options["straight_through"] = true;
    // Noise in the choice of one of six: the loss falls to .87 of its start in these samples, guessing stays at 1.
    add("softmax_" + kind, choosing("softmax", options), kind.starts_with("gumbel") ? 0.92 : 0.75);
  }
  const mesh::Options adaptive{{"cutoffs", std::vector<double>{2, 4}}, {"div_value", 2.0}};
  const mesh::Options mixture{{"components", 3.0}, {"hidden", 8.0}};
  for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16})
    add(joined({"adaptive_softmax", name(dtype)}), choosing("adaptive_softmax", adaptive, true, dtype));
  for (const Dtype dtype : {Dtype::float32, Dtype::int8})
    add(joined({"mixture_of_softmaxes", name(dtype)}), choosing("mixture_of_softmaxes", mixture, true, dtype));
  for (const auto& [output, dtype] : {std::pair{"probabilities", Dtype::float32},
                                      {"features", Dtype::float32},
                                      {"both", Dtype::float32},
                                      {"both", Dtype::int8}}) {
    const mesh::Options kmeans{{"clusters", 8.0}, {"output", std::string(output)}, {"temperature", 4.0}};
    const bool is_narrow = output == std::string("probabilities");  // eight numbers that add up to 1
    add(joined({"kmeans", output, name(dtype)}), choosing("kmeans", kmeans, false, dtype), is_narrow ? 0.85 : 0.75);
  }
  for (const Schedule schedule : kSchedules)
    add(joined({"dropout", name(schedule)}), choosing("dropout", {{"rate", 0.3}}), 0.8, 0.02f, schedule);
  for (const Schedule schedule : kSchedules)
    add(joined({"running_standardize", name(schedule)}), choosing("running_standardize", {{"decay", 0.999}}), 0.8,
        0.03f, schedule);
}

/// A watcher morphs a layer while all of it learns.
void add_metacognition(std::vector<Case>& all) {
  for (const Schedule schedule : kSchedules) {
    const NetworkSpec spec = NetworkBuilder("stormy", GridShape{1, 2, 3, 1})
                                 .input("x", 6)
                                 .dense({0, 0, 0, 0}, 10, Activation::tanh)
                                 .dense({0, 0, 1, 0}, 10, Activation::tanh)
                                 .dense({0, 0, 2, 0}, 3)
                                 .layer({0, 1, 0, 0}, "metacognition")
                                 .from({Coord{0, 0, 0, 0}})
                                 .option("statistic", std::string("gradient_storm"))
                                 .option("above", 1.5)
                                 .option("horizon", 10.0)
                                 .option("cooldown", 50.0)
                                 .option("action", std::string("morph"))
                                 .option("to", std::string("bfloat16"))
                                 .output("y", {0, 0, 2, 0})
                                 .seed(4)
                                 .spec();
    LearningOptions options{.schedule = schedule, .loss = Loss::mse};
    options.optimizer.lr = 0.001f;
    all.push_back({joined({"metacognition", name(schedule)}), spec, options, kSome});
    all.back().acts = true;
  }
}

/// Stored samples beside new ones, and weights that are held.
void add_past(std::vector<Case>& all) {
  const auto add = [&](std::string name, const LearningOptions& options, const NetworkSpec& spec) {
    all.push_back({std::move(name), spec, options});
    all.back().is_on_cpu = true;
  };
  for (const Schedule schedule : kSchedules) {
    LearningOptions options{.schedule = schedule};
    options.optimizer.lr = 0.02f;
    options.replay = {ReplayMethod::er, 2, 9, 0.5f, 0.75f};
    add(joined({"er", name(schedule)}), options, mixed_network(3));
    options.replay = {};
    options.consolidation = {Consolidation::ewc, 8, 1000.0f, 0.9f};
    add(joined({"ewc", name(schedule)}), options, mixed_network(3));
    options.consolidation = {Consolidation::si, 8, 10.0f};
    options.learners = 1;
    add(joined({"si", name(schedule)}), options, in_type(mixed_network(3), Dtype::int8, Activations::float32, true));
  }
  LearningOptions options;
  options.optimizer = kernels::default_options(OptimizerKind::adamw);
  options.replay = {ReplayMethod::der, 3, 7, 0.5f, 1.0f};
  add("der", options, mixed_network(3));
  options.consolidation = {Consolidation::ewc, 8, 100.0f};
  add("der_ewc", options, mixed_network(3));
  options.replay = {};
  options.consolidation = {Consolidation::lwf, 8};
  add("lwf", options, mixed_network(3));
  for (const Rule rule : target_rules()) {
    LearningOptions others{.rule = rule};
    others.replay = {ReplayMethod::er, 1, 5};
    add(joined({"er", name(rule)}), others, mixed_network(3));
  }
}

/// Steps with noise.
void add_perturbations(std::vector<Case>& all) {
  for (const Perturbation method : {Perturbation::upgd, Perturbation::upgd_nonprotecting}) {
    const auto add = [&](const LearningOptions& by, const NetworkSpec& spec, std::string_view more) {
      LearningOptions options = by;
      options.optimizer = {.kind = OptimizerKind::sgd, .lr = 0.02f, .weight_decay = 0.01f};
      options.perturb = {method, 0.1f, 0.9f};
      all.push_back({joined({"perturb", name(method), name(by.rule), more}), spec, options});
      all.back().is_on_cpu = true;
    };
    for (const Rule rule : kRules) add({.rule = rule}, mixed_network(3), "mixed");
    add({}, in_type(digits_network(3), Dtype::int8, Activations::float32, true), "int8");
    add({}, recurrent_network(3), "recurrent");
    add({}, shared_network(), "shared");
  }
}

/// Matrices that move by adapters of low rank, beside a frozen layer.
void add_adapters(std::vector<Case>& all) {
  const auto add = [&](const LearningOptions& by, const NetworkSpec& spec, std::string_view more) {
    LearningOptions options = by;
    options.lora = {.rank = 3, .alpha = 5.0f};
    if (options.optimizer.lr == 0.0f) options.optimizer.lr = 0.02f;
    all.push_back({joined({"lora", name(by.rule), name(by.schedule), more}), spec, options});
  };
  NetworkSpec mixed = mixed_network(3);
  mixed.layers[1].is_frozen = true;
  for (const Schedule schedule : kSchedules) {
    for (const Rule rule : kRules) add({.rule = rule, .schedule = schedule}, mixed, "mixed");
    add({.schedule = schedule}, recurrent_network(3), "recurrent");
    add({.schedule = schedule}, shared_network(), "shared");
    add({.schedule = schedule}, in_type(digits_network(3), Dtype::int8, Activations::float32, true), "int8");
    add({.schedule = schedule}, in_type(digits_network(3), Dtype::bfloat16, Activations::float32, true), "bfloat16");
  }
  for (const UpdateCase& each : update_cases()) {
    add(each.options(Rule::backprop, Schedule::settle), mixed, each.name);
    all.back().ends_alone = true;
  }
  LearningOptions some{.optimizer = {.kind = OptimizerKind::adamw, .lr = 0.01f}};
  add(some, recurrent_network(3), "some");
  all.back().options.lora.matrices = {"weight", "gate"};
}

/// Units that begin anew, several of them within the samples of a case.
void add_renewals(std::vector<Case>& all) {
  for (const Renewal method : {Renewal::redo, Renewal::continual}) {
    const auto add = [&](const LearningOptions& by, const NetworkSpec& spec, std::string_view more) {
      LearningOptions options = by;
      options.optimizer.lr = 0.02f;
      options.renew = {method, 7, 0.6f, 0.02f, 0.9f, 5};
      all.push_back({joined({"renew", name(method), name(by.rule), name(by.schedule), more}), spec, options});
      all.back().is_on_cpu = true;
    };
    for (const Schedule schedule : kSchedules) {
      add({.schedule = schedule}, digits_network(3), "float32");
      add({.schedule = schedule}, in_type(digits_network(3), Dtype::int8, Activations::float32, true), "int8");
    }
    for (const Rule rule : target_rules()) add({.rule = rule}, digits_network(3), "float32");
  }
}

}  // namespace

std::vector<UpdateCase> update_cases() {
  std::vector<UpdateCase> cases;
  for (std::size_t i = 0; i < kernels::optimizer_names().size(); ++i) {
    OptimizerOptions o = kernels::default_options(static_cast<OptimizerKind>(i));
    o.lr = 0.01f;
    o.weight_decay = 0.001f;
    cases.push_back({std::string(kernels::optimizer_names()[i]), o});
  }
  OptimizerOptions o = kernels::default_options(OptimizerKind::rmsprop);
  o.lr = 0.003f;
  o.momentum = 0.5f;
  cases.push_back({"rmsprop_momentum", o});
  o.centered = true;
  cases.push_back({"rmsprop_centered_momentum", o});
  o = kernels::default_options(OptimizerKind::momentum);
  o.lr = 0.01f;
  o.nesterov = true;
  cases.push_back({"nesterov", o});
  for (std::size_t i = 0; i < kernels::rate_schedule_names().size(); ++i) {
    const RateSchedule rates{static_cast<RateScheduleKind>(i), 5, 9, 2, 0.125f, 0.875f, 1.5f};
    cases.push_back({"rate_" + std::string(kernels::rate_schedule_names()[i]), o, rates});
  }
  cases.push_back({"adamw_cosine", kernels::default_options(OptimizerKind::adamw), {RateScheduleKind::cosine, 3, 40}});
  cases.back().optimizer.lr = 0.01f;
  for (const Clip clip : {Clip::value, Clip::norm, Clip::global_norm}) {
    o.clip = clip;
    o.clip_limit = clip == Clip::value ? 0.01f : 0.2f;
    cases.push_back({"clip_" + std::string(learning::name(clip)), o});
  }
  return cases;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  add_rules(all);
  add_bounds(all);
  add_updates(all);
  add_delays(all);
  add_signs(all);
  add_crelu(all);
  add_forward(all);
  add_losses(all);
  add_types(all);
  add_narrow(all);
  add_recurrent(all);
  add_state_targets(all);
  add_maps(all);
  add_shared_weights(all);
  add_deep(all);
  add_choosing(all);
  add_metacognition(all);
  add_past(all);
  add_renewals(all);
  add_perturbations(all);
  add_adapters(all);
  return all;
}

}  // namespace weft::learning::test
