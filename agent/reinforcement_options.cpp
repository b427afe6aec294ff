// SPDX-License-Identifier: Apache-2.0

#include "agent/reinforcement_options.hpp"

#include "core/json.hpp"
#include "core/option_table.hpp"

#include <string>
#include <utility>

namespace weft::agent {
namespace {

using ReinforcementTable = OptionTable<ReinforcementOptions>;

const std::vector<std::string_view> kAlgorithms{"actor_critic", "q", "sarsa"};

const OptionTable<EnvironmentOptions>& world_table() {
  using O = EnvironmentOptions;
  constexpr const char* kExternal = "type=external";
  static const OptionTable<EnvironmentOptions> table({
      option("type", &O::kind,
             {.names = environment_names(), .is_needed = true, .is_always_written = true, .meaning = "the world"}),
      option("length", &O::length,
             {.low = 1,
              .high = 1u << 20,
              .unit = "steps",
              .meaning = "steps from the bit to the question",
              .only_with = "type=memory_chain"}),
      option("first", &O::first,
             {.names = grid_game_names(), .meaning = "the game of the first turn", .only_with = "type=turns"}),
      option("second", &O::second,
             {.names = grid_game_names(), .meaning = "the game of the second turn", .only_with = "type=turns"}),
      option("every", &O::every,
             {.low = 1, .high = 1e9, .unit = "steps", .meaning = "steps of a turn", .only_with = "type=turns|chase"}),
      option("observations", &O::observations,
             {.high = 1u << 20, .meaning = "numbers that it shows; to be given", .only_with = kExternal}),
      option("actions", &O::actions,
             {.high = 1u << 16,
              .meaning = "actions that it knows, of which one is taken; they or `values` are to be given",
              .only_with = kExternal}),
      option("values", &O::values,
             {.high = 1u << 16, .meaning = "real numbers that an action of it consists of", .only_with = kExternal}),
      option("timeout", &O::timeout,
             {.low = 0.001,
              .high = 86400,
              .unit = "seconds",
              .meaning = "time for an answer; of a program's first one at least 60",
              .only_with = kExternal}),
      option("resend", &O::resend,
             {.high = 1u << 20,
              .unit = "steps",
              .meaning = "length to which an episode can be gone on with by a program that is started anew",
              .only_with = kExternal}),
  });
  return table;
}

std::vector<ReinforcementTable::Field> learning_fields() {
  using O = ReinforcementOptions;
  return {
      section_option("environment", &O::environment, world_table(),
                     {.is_needed = true, .is_always_written = true, .meaning = "what the agent acts in"}),
      option("environments", &O::environments,
             {.low = 1,
              .high = 256,  // opening an agent of more takes seconds, by their square
              .meaning = "environments of that kind, which one network acts in and learns from together: each is a "
                         "session with traces of its own, and a step is one of each"}),
      option("algorithm", &O::algorithm,
             {.names = kAlgorithms,
              .meaning = "a policy and the value of its states, or the value of each action by the best next one (`q`) "
                         "or by the next one that is taken (`sarsa`)"}),
      option("discount", &O::discount,
             {.low = 0, .high = 1, .meaning = "share of the next step's value that counts now (gamma)"}),
      option("lambda", &O::lambda,
             {.low = 0, .high = 1, .meaning = "share of the traces that a step keeps, beside `discount`"}),
      option("entropy", &O::entropy,
             {.low = 0,
              .high = 1000,
              .meaning = "weight of the entropy of the policy, which keeps it exploring",
              .applies = "algorithm=actor_critic"}),
      option("actor_bound", &O::actor_bound,
             {.low = 0,
              .high = 1e6,
              .meaning = "kappa, bound of the actor's steps: larger is smaller steps",
              .applies = "algorithm=actor_critic"}),
      option("critic_bound", &O::critic_bound, {.low = 0, .high = 1e6, .meaning = "the same of the critic's"}),
      option("least_deviation", &O::least_deviation,
             {.low = 1e-6,
              .high = 1e6,
              .meaning = "least standard deviation of each value of an action; only where actions are real values",
              .applies = "algorithm=actor_critic"}),
  };
}

std::vector<ReinforcementTable::Field> explore_fields() {
  using O = ReinforcementOptions;
  constexpr const char* kByValues = "algorithm=q|sarsa";
  return {
      option("explore_begin", &O::explore_begin,
             {.low = 0, .high = 1, .meaning = "share of actions at random, at first", .only_with = kByValues}),
      option("explore_end", &O::explore_end,
             {.low = 0, .high = 1, .meaning = "the same in the end", .only_with = kByValues}),
      option("explore_steps", &O::explore_steps,
             {.unit = "steps", .meaning = "steps in which it goes from one to the other", .only_with = kByValues}),
  };
}

std::vector<ReinforcementTable::Field> place_fields() {
  using O = ReinforcementOptions;
  return {
      option("normalize", &O::normalize,
             {.meaning = "observations less their mean so far, over their standard deviation so far"}),
      option("scale_rewards", &O::scale_rewards,
             {.meaning = "rewards over the standard deviation so far of their discounted sum"}),
      option("seed", &O::seed, {.is_always_written = true, .meaning = "episodes and exploration"}),
      option("steps", &O::steps, {.unit = "steps", .meaning = "steps of a run of `weft live`; 0: until it is stopped"}),
      option("input", &O::input, {.meaning = "port of the observations; empty: the only one"}),
      option("actor", &O::actor,
             {.meaning = "output with a value for each action, whose softmax is the policy; of actions that are real "
                         "values with their means, and then a number for each standard deviation",
              .applies = "algorithm=actor_critic"}),
      option("critic", &O::critic,
             {.meaning = "output of one value, that of the state; of `q` and `sarsa` of a value for each action"}),
  };
}

const ReinforcementTable& reinforcement_table() {
  static const ReinforcementTable table([] {
    std::vector<ReinforcementTable::Field> fields = learning_fields();
    for (auto& more : {explore_fields(), place_fields()})
      for (const auto& field : more) fields.push_back(field);
    return fields;
  }());
  return table;
}

/// Actions that are one of several have no deviation. @pre the environment's own options were read
Status check_deviation(JsonReader& reader, const ReinforcementOptions& options) {
  const EnvironmentOptions& world = options.environment;
  const bool is_external = world.kind == EnvironmentKind::external;
  const std::size_t choices = is_external ? world.actions : make_environment(world)->shape().choices;
  if (choices == 0 || !reader.find("least_deviation")) return {};
  return fail(Errc::invalid_argument, reader.path_of("least_deviation") + ": " + number_text(options.least_deviation) +
                                          " with reinforcement.environment.type '" + std::string(name(world.kind)) +
                                          "', where an action is one of " + std::to_string(choices) +
                                          " and has no deviation; leave it away");
}

}  // namespace

std::string_view name(Algorithm algorithm) noexcept { return kAlgorithms[static_cast<std::size_t>(algorithm)]; }

const std::vector<OptionRow>& reinforcement_rows() { return reinforcement_table().rows(); }

Result<ReinforcementOptions> read_reinforcement(std::string_view text) {
  WEFT_TRY(const auto document, parse_json(text, "reinforcement"));
  WEFT_TRY(JsonReader reader, JsonReader::open(document, "reinforcement"));
  ReinforcementOptions options;
  WEFT_CHECK(reinforcement_table().read(reader, options));
  WEFT_CHECK(check_deviation(reader, options));
  return options;
}

std::string write_reinforcement(const ReinforcementOptions& options) {
  return reinforcement_table().write(options).dump();
}

}  // namespace weft::agent
