// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/external/answer_source.hpp"
#include "agent/external/episode_trail.hpp"
#include "agent/policies/policy.hpp"
#include "agent/reinforcement_options.hpp"
#include "agent/running_moments.hpp"
#include "learning/drift/drift_watch.hpp"
#include "learning/learner.hpp"

#include "core/archive.hpp"
#include "core/bytes.hpp"
#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::agent {

/// An episode that has ended.
struct Episode {
  std::uint64_t number = 0, steps = 0;  ///< from 0; how long it was
  std::uint64_t last_step = 0;          ///< step of the loop that ended it, from 1
  std::size_t session = 0;              ///< of the environment that it was in
  double sum = 0.0;                     ///< of its rewards
  bool truncated = false;
};

/// A learner that acts in one environment or several, one step after the other: observe, act, learn from the
/// temporal-difference error. World, normalizers, draws and returns are state, beside the mesh's: what it does is a
/// function of that state.
///
/// With observation x, value v(x) and policy p(x), as the network gives them now:
///   a ~ p(x);  r, x' from the environment;  v' = v(x'), 0 where the episode terminated
///   error = r / deviation of the discounted rewards + discount v' - v(x)
///   critic: gradient -1 of v; actor: gradient of -(log p(a) + entropy sign(error) H(p)); both TraceSignal with `error`
/// Algorithm q: v is the value q(x)[a] of the action, v' the largest of q(x'); traces begin anew at an action at random
/// that is not the largest's (Watkins 1989). sarsa: v' is q(x')[a'] of the next action, which is drawn at once. Both
/// take environments whose actions are choices; the actor's policy may be of real values too (Policy).
///
/// The learner's detector of drift (`learning.drift`) is given |error| of each step, or the return of each episode with
/// its sign turned round, so that what is worse is larger.
///
/// Of n environments each is a session of the mesh with traces, episodes and draws of its own, and a step is one of
/// each. Observations and rewards are normalized by what all have seen, taken in in the order of sessions. Their steps
/// are found by the weights of before, each with its own bound, and are added in that order.
/// @thread one at a time; it drives the learner, which must outlive it
/// @exact  the same bits everywhere: binary64, kernels::math, Philox with the purposes `environment` and `explore`
/// @source Elsayed, Vasan and Mahmood 2024, "Streaming deep reinforcement learning finally works", arXiv:2410.14606
class EnvironmentLoop {
 public:
  static constexpr std::size_t kReturns = 100;  // episodes that `mean_return` is over

  /// @error unsupported, shape_mismatch, unknown_name: a network or learning options that do not fit the environment
  static Result<std::unique_ptr<EnvironmentLoop>> build(learning::Learner& learner,
                                                        const ReinforcementOptions& options);

  /// Acts so many times. @error halted: a fault halted the mesh in a step; the step is not repeated. Others: an
  /// external
  ///         environment did not answer as it should, see `is_cut_off`
  Status run(std::uint64_t steps);
  /// The same with answers that a journal holds. `is_changed`: the agent may act otherwise than it did.
  /// @error corrupt, differs: the answers are not those of these steps
  Status run_recorded(std::uint64_t steps, std::span<const Answer> answers, bool is_changed);

  /// True where the environment is outside of this process (type `external`).
  bool is_external() const noexcept { return options_.environment.kind == EnvironmentKind::external; }
  /// Source of its answers. Null: none, and `run` refuses.
  void connect(std::shared_ptr<AnswerSource> source) { source_ = std::move(source); }
  const std::shared_ptr<AnswerSource>& source() const noexcept { return source_; }
  /// Of an external environment: its answers in the steps of the last `run` that came to their end, and how many;
  /// `all`: those in a step that the mesh halted in too.
  std::span<const Answer> answers(bool all = false) const noexcept {
    return std::span(answers_).first(all ? answers_.size() : exchange_.whole_answers);
  }
  std::uint64_t whole_steps() const noexcept { return exchange_.whole_steps; }
  /// True after a step that the environment broke off: mesh and loop stand within it, and are of no use any more. Those
  /// of the end of the step before, at `mesh_tick` of the mesh, are what a journal with `answers` leads to.
  bool is_cut_off() const noexcept { return exchange_.is_cut_off; }
  std::uint64_t mesh_tick() const noexcept { return exchange_.mesh_tick; }

  std::uint64_t steps() const noexcept { return steps_; }
  /// Of all environments, those under way among them.
  std::uint64_t episodes() const noexcept;
  /// Number of the episode under way in the first environment, or of its next one.
  std::uint64_t episode() const noexcept { return (worlds_[0].episodes - worlds_[0].in_episode) * worlds_.size(); }
  /// Of the last episodes, at most kReturns; 0 before the first has ended.
  double mean_return() const noexcept;
  /// Episodes that ended since they were last cleared.
  std::span<const Episode> ended() const noexcept { return ended_; }
  /// Alarms of the learner's detector since then.
  std::span<const learning::DriftEvent> drift_events() const noexcept { return drift_events_; }
  void clear_ended() noexcept {
    ended_.clear();
    drift_events_.clear();
  }
  const ReinforcementOptions& options() const noexcept { return options_; }
  const Environment& environment(std::size_t session = 0) const noexcept { return *worlds_[session].environment; }
  std::size_t environments() const noexcept { return worlds_.size(); }

  /// Its state as bytes, and back. @error shape_mismatch, corrupt: a state of another environment, or of none
  std::vector<std::byte> save() const;
  Status load(ByteSpan bytes);

 private:
  /// An environment, and where the loop stands in it.
  struct World {
    std::unique_ptr<Environment> environment;
    std::uint64_t episodes = 0;     // that have begun
    std::uint64_t in_episode = 0;   // 1 between its beginning and its end
    double sum = 0.0;               // of the episode's rewards
    double discounted = 0.0;        // of all its rewards so far
    std::uint64_t next_choice = 0;  // sarsa: drawn in the step before
  };

  /// One environment's part of the step under way.
  struct Move {
    Action action;
    double error = 0.0, decay = 0.0;
    bool is_over = false, terminated = false;
  };

  /// With an external environment, in the last `run`.
  struct Exchange {
    std::uint64_t whole_steps = 0, mesh_tick = 0;
    std::size_t whole_answers = 0;
    bool is_cut_off = false;
  };

  EnvironmentLoop(learning::Learner& learner, ReinforcementOptions options);
  Status check() const;
  Status check_external() const;
  template <class Self, class Archive>
  static void visit_fields(Self& self, Archive& archive);
  bool is_possible() const noexcept;
  Status step();
  Status begin_episode(std::size_t session);
  void end_episode(std::size_t session, bool truncated);
  std::uint64_t ended_episodes() const noexcept;
  /// Draws an environment's action; the error is, so far, what the action's value leaves of it.
  Result<Move> choose(std::size_t session, std::span<const float> values, std::span<const float> logits);
  /// Acts, and adds the reward to the error.
  Status act(std::size_t session, Move& move);
  /// Adds the values of the next observations to the errors.
  Status look_ahead();
  /// Within an episode: an external environment may have lost it.
  Status go_on();
  Result<Outcome> outcome_of(std::size_t session, const Action& action);
  /// Takes an answer of an external environment in. @error its own, and the steps of this call end with the one before
  Status take(Result<Answer> answer);
  Status cut_off(Error error);
  /// The environment's observation, as the network sees it.
  void look(std::size_t session);
  double scaled(World& world, double reward);
  bool has_actor() const noexcept { return options_.algorithm == Algorithm::actor_critic; }
  std::size_t critic_width() const noexcept { return has_actor() ? 1 : environment().shape().choices; }
  /// Draws the action of step `step` by values.
  std::uint32_t choose_by_values(std::size_t session, std::span<const float> values, std::uint64_t step) const;
  Status teach(learning::Ticket ticket);
  /// Gives the learner's detector what it watches of the step.
  void watch();

  learning::Learner& learner_;
  const ReinforcementOptions options_;
  std::unique_ptr<Policy> policy_;  // of the actor
  std::vector<World> worlds_;       // by session
  RunningMoments observed_, rewarded_;
  std::uint64_t steps_ = 0;
  std::vector<float> x_;  // [environments][observations], the present ones, as the network sees them
  std::array<double, kReturns> returns_{};
  std::vector<Episode> ended_;
  std::vector<learning::DriftEvent> drift_events_;
  // Of an external environment.
  EpisodeTrail trail_;
  std::shared_ptr<AnswerSource> source_;
  std::vector<Answer> answers_;
  Exchange exchange_;
  // Of the step under way, by session.
  std::vector<Move> moves_;
  std::vector<float> gradient_, values_;                       // of the actor; of the critic
  std::array<std::vector<learning::TraceSignal>, 2> signals_;  // of the critic; of the actor
};

}  // namespace weft::agent
