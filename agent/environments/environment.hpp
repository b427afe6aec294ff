// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/archive.hpp"
#include "core/philox.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace weft::agent {

enum class EnvironmentKind : int {
#define WEFT_ENVIRONMENT(name) name,
#include "agent/environments/environments.def"
#undef WEFT_ENVIRONMENT
};
std::string_view name(EnvironmentKind kind) noexcept;
const std::vector<std::string_view>& environment_names();

/// Games on a grid of 10 by 10 (grid_game.hpp).
enum class GridGameKind : int { falling, lanes, shooter, snake };
const std::vector<std::string_view>& grid_game_names();

/// Numbers that an environment gives and takes.
struct EnvironmentShape {
  std::size_t observations = 0;
  std::size_t choices = 0;  ///< of an action that is one of several; 0: it is values
  std::size_t values = 0;   ///< of such an action
  std::uint64_t limit = 0;  ///< steps after which an episode is truncated; 0: none
  std::size_t state = 0;    ///< numbers that the world consists of
};

struct Action {
  std::uint32_t choice = 0;
  std::span<const float> values{};
};

/// The result of one step.
struct Outcome {
  double reward = 0.0;
  bool terminated = false;  ///< the episode has come to its end: nothing follows
  bool truncated = false;   ///< it is left, at a limit
};

/// A world to act in: episodes of steps. Its state is numbers and a position in its random stream, so that it is saved,
/// hashed and replayed with the agent in it.
/// @thread one at a time
/// @exact  the same bits everywhere: binary64 without fusing, kernels::math, Philox with the purpose `environment`
class Environment {
 public:
  virtual ~Environment() = default;
  const EnvironmentShape& shape() const noexcept { return shape_; }

  /// Begins an episode. Its draws are a function of seed and episode. `step`: of all that the agent has taken; some
  /// worlds change with it (turns, chase).
  void reset(std::uint64_t seed, std::uint64_t episode, std::uint64_t step = 0);
  /// Acts. After the end of an episode the world stands as it ended until `reset`.
  Outcome step(const Action& action);
  /// [shape().observations]
  std::span<const float> observation() const noexcept { return observation_; }
  /// The numbers that the world consists of.
  std::span<const double> state() const noexcept { return state_; }
  /// Steps of this episode.
  std::uint64_t steps() const noexcept { return steps_; }
  /// False before the first `reset`, where no observation can be: zeros, as the state is.
  bool is_begun() const noexcept { return is_begun_; }

  void visit(OutArchive& archive) const;
  /// @return false: no such world can be
  [[nodiscard]] bool visit(InArchive& archive);

 protected:
  explicit Environment(EnvironmentShape shape);
  /// Within `begin`: the step that `reset` was given.
  std::uint64_t step_of_agent() const noexcept { return step_of_agent_; }

  virtual void begin(std::span<double> state, RandomStream& random) const = 0;
  virtual Outcome move(std::span<double> state, const Action& action, std::uint64_t step,
                       RandomStream& random) const = 0;
  virtual void observe(std::span<const double> state, std::uint64_t step, std::span<float> to) const = 0;
  /// True for a state that `begin` and `move` could have left; its numbers are finite.
  virtual bool is_possible(std::span<const double> state) const = 0;

 private:
  template <class Self, class Archive>
  static void visit_fields(Self& self, Archive& archive);
  RandomStream stream() const noexcept;

  EnvironmentShape shape_;
  std::vector<double> state_;
  std::vector<float> observation_;  // follows from the others
  std::uint64_t seed_ = 0, episode_ = 0, position_ = 0, steps_ = 0;
  std::uint64_t step_of_agent_ = 0;  // of no use after `begin`
  bool is_begun_ = false;            // follows from the others
};

struct EnvironmentOptions {
  EnvironmentKind kind = EnvironmentKind::cartpole;
  std::uint32_t length = 16;  // steps between bit and question (memory_chain)
  GridGameKind first = GridGameKind::falling, second = GridGameKind::lanes;  // by turns (turns)
  std::uint64_t every = 20000;                                               // steps of a turn (turns, chase)
  std::uint32_t observations = 0;  // of an environment outside of this process (external)
  std::uint32_t actions = 0;       // of these two one: choices, or values of an action
  std::uint32_t values = 0;
  double timeout = 10.0;         // seconds in which it answers
  std::uint32_t resend = 10000;  // actions of an episode that are kept, to come back to it
};
std::unique_ptr<Environment> make_environment(const EnvironmentOptions& options);

#define WEFT_ENVIRONMENT(name) std::unique_ptr<Environment> make_##name(const EnvironmentOptions& options);
#include "agent/environments/environments.def"
#undef WEFT_ENVIRONMENT

/// Uniform in [low, high).
double uniform(RandomStream& random, double low, double high) noexcept;

}  // namespace weft::agent
