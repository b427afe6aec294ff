// SPDX-License-Identifier: Apache-2.0

#include "agent/environment_loop.hpp"

#include "agent/environments/external.hpp"
#include "agent/external/recorded_answers.hpp"

#include "mesh/memory/byte_archive.hpp"

#include "kernels/float_environment.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::agent {
namespace {

constexpr Scopes kState{Scope::control};

/// The only input where none is named.
Result<std::string> input_of(const mesh::NetworkSpec& network, const std::string& named) {
  if (!named.empty()) return named;
  if (network.inputs.size() == 1) return network.inputs[0].name;
  return fail(Errc::invalid_argument, "reinforcement.input: the network has " + std::to_string(network.inputs.size()) +
                                          " inputs; name the one of the observations");
}

Status check_width(const std::string& key, const std::string& name, std::size_t width, std::size_t wanted,
                   EnvironmentKind environment) {
  if (width == wanted) return {};
  return fail(Errc::shape_mismatch, "reinforcement." + key + ": '" + name + "' has " + std::to_string(width) +
                                        " values, " + std::string(agent::name(environment)) + " has " +
                                        std::to_string(wanted));
}

/// Of a policy of real values, whose output has two numbers for each.
Status check_gaussian(const std::string& actor, std::size_t width, std::size_t values, EnvironmentKind environment) {
  if (width == 2 * values) return {};
  return fail(Errc::shape_mismatch, "reinforcement.actor: '" + actor + "' has " + std::to_string(width) +
                                        " values, and an action of " + std::string(agent::name(environment)) + " is " +
                                        std::to_string(values) + " real values, each by two of them, a mean and a " +
                                        "deviation; give " + std::to_string(2 * values));
}

/// Of a session's policy at one step.
RandomStream draws(std::uint64_t seed, std::uint64_t step, std::size_t sessions, std::size_t session) noexcept {
  return RandomStream(seed, step * sessions + session, RandomPurpose::explore);
}

}  // namespace

EnvironmentLoop::EnvironmentLoop(learning::Learner& learner, ReinforcementOptions options)
    : learner_(learner),
      options_(std::move(options)),
      worlds_(options_.environments),
      observed_(make_environment(options_.environment)->shape().observations),
      rewarded_(1),
      trail_(options_.environment.resend, make_environment(options_.environment)->shape().values),
      moves_(worlds_.size()) {
  for (World& world : worlds_) world.environment = make_environment(options_.environment);
  const EnvironmentShape& shape = environment().shape();
  x_.resize(worlds_.size() * shape.observations);
  policy_ = shape.choices > 0 ? make_softmax_policy(worlds_.size(), shape.choices)
                              : make_gaussian_policy(worlds_.size(), shape.values, options_.least_deviation);
  gradient_.resize(worlds_.size() * policy_->width());
  values_.resize(worlds_.size() * critic_width());
}

Result<std::unique_ptr<EnvironmentLoop>> EnvironmentLoop::build(learning::Learner& learner,
                                                                const ReinforcementOptions& options) {
  ReinforcementOptions named = options;
  WEFT_TRY(named.input, input_of(learner.mesh().spec(), options.input));
  std::unique_ptr<EnvironmentLoop> loop(new EnvironmentLoop(learner, std::move(named)));
  WEFT_CHECK(loop->check());
  return loop;
}

Status EnvironmentLoop::check() const {
  const mesh::Graph& graph = std::as_const(learner_).mesh().graph();
  const EnvironmentShape& shape = environment().shape();
  const EnvironmentKind kind = options_.environment.kind;
  if (is_external()) WEFT_CHECK(check_external());
  if (shape.choices == 0 && !has_actor())
    return fail(Errc::unsupported, "reinforcement.algorithm: '" + std::string(name(options_.algorithm)) +
                                       "' has a value for each of several actions, and an action of '" +
                                       std::string(name(kind)) + "' is " + std::to_string(shape.values) +
                                       " real values; give 'actor_critic'");
  if (!learner_.options().traces)
    return fail(Errc::invalid_argument,
                "reinforcement: needs learning.traces true, learning.late 'meet' and "
                "learning.optimizer {\"type\": \"sgd\", \"lr\": 1}");
  if (!std::as_const(learner_).mesh().spec().stream.empty())
    return fail(Errc::invalid_argument,
                "stream: a network with 'reinforcement' learns from rewards, and no sample of a stream reaches it; "
                "leave one of the two sections away");
  // Scores are of labels and targets, and a reward is none.
  const learning::DriftOptions& drift = learner_.options().drift;
  if (drift.is_on() && !learning::is_of_acting(drift.input))
    return fail(Errc::unsupported, "learning.drift.input: '" + std::string(learning::name(drift.input)) +
                                       "' is of the scores of labels, and a network with 'reinforcement' learns from "
                                       "rewards; give 'td_error' or 'return'");
  if (learner_.options().anomaly.is_on())
    return fail(Errc::unsupported,
                "learning.anomaly: it takes the scores of labels, and a network with 'reinforcement' learns from "
                "rewards; leave it out");
  const std::size_t sessions = std::as_const(learner_).mesh().sessions(), learners = learner_.options().learners;
  if (sessions != worlds_.size() || learners != worlds_.size())
    return fail(Errc::unsupported, "reinforcement.environments: " + std::to_string(worlds_.size()) +
                                       ", and the mesh has " + std::to_string(sessions) + " sessions with " +
                                       std::to_string(learners) + " learners; there is one of each environment");
  const auto port = graph.find_port(options_.input);
  if (!port) return fail(Errc::unknown_name, "reinforcement.input: no input is named '" + options_.input + "'");
  WEFT_CHECK(check_width("input", options_.input, graph.nodes()[*port].width, shape.observations, kind));
  for (const auto& [key, output, width] : {std::tuple("critic", &options_.critic, critic_width()),
                                           std::tuple("actor", &options_.actor, policy_->width())}) {
    if (output == &options_.actor && !has_actor()) continue;
    const auto node = graph.find_output(*output);
    if (!node)
      return fail(Errc::unknown_name, "reinforcement." + std::string(key) + ": no output is named '" + *output + "'");
    const std::size_t found = graph.nodes()[*node].width;
    if (output == &options_.actor && shape.choices == 0)
      WEFT_CHECK(check_gaussian(*output, found, shape.values, kind));
    else
      WEFT_CHECK(check_width(key, *output, found, width, kind));
  }
  return {};
}

Status EnvironmentLoop::check_external() const {
  if (worlds_.size() != 1)
    return fail(Errc::unsupported, "reinforcement.environments: " + std::to_string(worlds_.size()) +
                                       " with reinforcement.environment.type 'external', which is one program; give 1");
  const EnvironmentOptions& world = options_.environment;
  if (world.observations == 0)
    return fail(Errc::invalid_argument,
                "reinforcement.environment.observations: an external environment has a number of its own; give it");
  if ((world.actions == 0) == (world.values == 0))
    return fail(Errc::invalid_argument,
                "reinforcement.environment.actions, values: " + std::to_string(world.actions) + " and " +
                    std::to_string(world.values) +
                    "; an external environment has so many actions to choose from, or so many real values in one; "
                    "give one of the two");
  return {};
}

Status EnvironmentLoop::run(std::uint64_t steps) {
  const kernels::FlushSubnormals exact;
  if (exchange_.is_cut_off)
    return fail(Errc::invalid_argument, "an external environment has broken a step off; open the agent anew");
  if (is_external() && !source_)
    return fail(Errc::unsupported,
                "reinforcement.environment: it is external, and nothing is connected to it; `weft "
                "live` does that by --environment COMMAND or --environment-socket PATH");
  exchange_ = {};
  answers_.clear();
  for (std::uint64_t i = 0; i < steps; ++i) {
    exchange_.mesh_tick = std::as_const(learner_).mesh().ticks();
    WEFT_CHECK(step());
    exchange_.whole_answers = answers_.size();
    ++exchange_.whole_steps;
  }
  return {};
}

Status EnvironmentLoop::run_recorded(std::uint64_t steps, std::span<const Answer> answers, bool is_changed) {
  const auto recorded = std::make_shared<RecordedAnswers>(answers, is_changed);
  auto before = std::exchange(source_, recorded);
  Status done = run(steps);
  source_ = std::move(before);
  if (done && !recorded->is_used_up())
    return fail(Errc::corrupt, "the journal has more answers of the environment here than the steps take");
  return done;
}

Status EnvironmentLoop::go_on() {
  if (!is_external() || !worlds_[0].in_episode) return {};
  const auto goes_on = source_->can_go_on(trail_.place(options_.seed, worlds_[0].episodes - 1, environment().steps()));
  if (!goes_on) return cut_off(goes_on.error());
  if (*goes_on) return {};
  end_episode(0, true);
  trail_.cut();
  return {};
}

Status EnvironmentLoop::cut_off(Error error) {
  exchange_.is_cut_off = true;
  return fail(std::move(error).within("step " + std::to_string(steps_ + 1) + ", episode " + std::to_string(episode())));
}

Status EnvironmentLoop::take(Result<Answer> answer) {
  if (!answer) return cut_off(std::move(answer).error());
  trail_.add(*answer);
  static_cast<ExternalEnvironment&>(*worlds_[0].environment).put(*answer);
  answers_.push_back(*std::move(answer));
  return {};
}

Result<Outcome> EnvironmentLoop::outcome_of(std::size_t session, const Action& action) {
  if (is_external()) WEFT_CHECK(take(source_->step(action)));
  return worlds_[session].environment->step(action);
}

Status EnvironmentLoop::step() {
  WEFT_CHECK(go_on());
  for (std::size_t session = 0; session < worlds_.size(); ++session)
    if (!worlds_[session].in_episode) WEFT_CHECK(begin_episode(session));
  const mesh::RunInput input{options_.input, x_};
  WEFT_TRY(const learning::Ticket ticket, learner_.observe({&input, 1}));
  WEFT_TRY(const std::span<const float> values, learner_.answer(ticket, options_.critic));
  std::span<const float> logits;
  if (has_actor()) {
    WEFT_TRY(logits, learner_.answer(ticket, options_.actor));
  }
  const auto of = [&](std::span<const float> all, std::size_t session) {
    const std::size_t width = all.size() / worlds_.size();
    return all.subspan(session * width, width);
  };
  for (std::size_t session = 0; session < worlds_.size(); ++session) {
    auto chosen = choose(session, of(values, session), of(logits, session));
    if (!chosen) WEFT_CHECK(learner_.forgo(ticket));
    WEFT_TRY(moves_[session], std::move(chosen));
  }
  for (std::size_t session = 0; session < worlds_.size(); ++session) WEFT_CHECK(act(session, moves_[session]));
  if (const Status asked = look_ahead(); !asked) {
    WEFT_CHECK(learner_.forgo(ticket));
    return fail(Errc::halted, "value of the next observation: " + asked.error().text());
  }
  Status taught = teach(ticket);
  learner_.clear_scores();
  if (taught) watch();
  return taught;
}

Result<EnvironmentLoop::Move> EnvironmentLoop::choose(std::size_t session, std::span<const float> values,
                                                      std::span<const float> logits) {
  const World& world = worlds_[session];
  Move move;
  move.decay = options_.discount * options_.lambda;
  if (has_actor()) {
    RandomStream random = draws(options_.seed, steps_, worlds_.size(), session);
    WEFT_TRY(move.action, policy_->draw(session, logits, random));
    move.error = -double{values[0]};
    return move;
  }
  const bool is_drawn = options_.algorithm == Algorithm::sarsa && world.environment->steps() > 0;
  const std::uint32_t choice =
      is_drawn ? static_cast<std::uint32_t>(world.next_choice) : choose_by_values(session, values, steps_);
  move.action.choice = choice;
  move.error = -double{values[choice]};
  if (options_.algorithm == Algorithm::q && values[choice] < *std::max_element(values.begin(), values.end()))
    move.decay = 0.0;
  return move;
}

Status EnvironmentLoop::act(std::size_t session, Move& move) {
  World& world = worlds_[session];
  WEFT_TRY(const Outcome outcome, outcome_of(session, move.action));
  if (trail_.take_cut()) move.decay = 0.0;
  if (session == 0) ++steps_;
  move.terminated = outcome.terminated;
  move.is_over = outcome.terminated || outcome.truncated;
  world.sum += outcome.reward;
  look(session);
  move.error = scaled(world, outcome.reward) + move.error;
  if (move.is_over) end_episode(session, outcome.truncated);
  return {};
}

Status EnvironmentLoop::look_ahead() {
  // Of an episode that has terminated nothing follows.
  const std::size_t width = environment().shape().observations;
  std::vector<float> seen;
  std::vector<std::size_t> sessions;
  for (std::size_t session = 0; session < worlds_.size(); ++session)
    if (!moves_[session].terminated) {
      sessions.push_back(session);
      seen.insert(seen.end(), x_.data() + session * width, x_.data() + (session + 1) * width);
    }
  if (sessions.empty()) return {};
  const mesh::RunInput input{options_.input, seen};
  const mesh::RunOutput output{options_.critic, std::span(values_).first(sessions.size() * critic_width())};
  WEFT_CHECK(learning::predict_sessions(learner_, {&input, 1}, sessions, {&output, 1}));
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    const std::span<const float> values = std::span(values_).subspan(i * critic_width(), critic_width());
    World& world = worlds_[sessions[i]];
    world.next_choice = options_.algorithm == Algorithm::sarsa ? choose_by_values(sessions[i], values, steps_) : 0;
    const double after = options_.algorithm == Algorithm::q ? *std::max_element(values.begin(), values.end())
                                                            : values[world.next_choice];
    moves_[sessions[i]].error += options_.discount * after;
  }
  return {};
}

Status EnvironmentLoop::teach(learning::Ticket ticket) {
  for (auto& each : signals_) each.clear();
  std::fill(values_.begin(), values_.end(), 0.0f);
  for (std::size_t session = 0; session < worlds_.size(); ++session) {
    const Move& move = moves_[session];
    // Its value is to rise.
    values_[session * critic_width() + (has_actor() ? 0 : move.action.choice)] = -1.0f;
    const learning::TraceSignal signal{static_cast<float>(move.error), static_cast<float>(move.decay),
                                       static_cast<float>(options_.critic_bound), move.is_over};
    signals_[0].push_back(signal);
    signals_[1].push_back(signal);
    signals_[1].back().bound = static_cast<float>(options_.actor_bound);
    if (!has_actor()) continue;
    const double weight = move.error > 0.0 ? options_.entropy : move.error < 0.0 ? -options_.entropy : 0.0;
    policy_->find_gradient(session, weight, std::span(gradient_).subspan(session * policy_->width(), policy_->width()));
  }
  const std::array<learning::Target, 2> targets{
      {{.output = options_.critic, .gradient = values_, .signals = signals_[0]},
       {.output = options_.actor, .gradient = gradient_, .signals = signals_[1]}}};
  return learner_.teach(ticket, std::span(targets).first(has_actor() ? 2 : 1));
}

void EnvironmentLoop::watch() {
  learning::DriftWatch& drift = learning::drift_of(learner_);
  if (!drift.is_on()) return;
  const bool is_by_episode = learner_.options().drift.input == learning::DriftInput::episode_return;
  for (std::size_t session = 0; session < worlds_.size(); ++session)
    if (!is_by_episode)
      drift.add(std::fabs(moves_[session].error), steps_);
    else if (moves_[session].is_over)
      drift.add(-worlds_[session].sum, steps_);
  // The next step clears them.
  drift_events_.insert(drift_events_.end(), drift.events().begin(), drift.events().end());
}

/// Numbers of episodes are different in each environment, so its draws are too.
Status EnvironmentLoop::begin_episode(std::size_t session) {
  World& world = worlds_[session];
  if (is_external()) WEFT_CHECK(take(source_->reset(options_.seed, world.episodes)));
  world.environment->reset(options_.seed, world.episodes++ * worlds_.size() + session, steps_);
  world.in_episode = 1;
  world.sum = world.discounted = 0.0;
  look(session);
  return {};
}

void EnvironmentLoop::end_episode(std::size_t session, bool truncated) {
  World& world = worlds_[session];
  returns_[ended_episodes() % kReturns] = world.sum;
  world.in_episode = 0;
  ended_.push_back({(world.episodes - 1) * worlds_.size() + session, world.environment->steps(), steps_, session,
                    world.sum, truncated});
}

std::uint64_t EnvironmentLoop::episodes() const noexcept {
  std::uint64_t sum = 0;
  for (const World& world : worlds_) sum += world.episodes;
  return sum;
}

std::uint64_t EnvironmentLoop::ended_episodes() const noexcept {
  std::uint64_t sum = 0;
  for (const World& world : worlds_) sum += world.episodes - world.in_episode;
  return sum;
}

void EnvironmentLoop::look(std::size_t session) {
  const std::span<const float> seen = worlds_[session].environment->observation();
  float* const x = x_.data() + session * seen.size();
  if (!options_.normalize) {
    std::copy(seen.begin(), seen.end(), x);
    return;
  }
  const std::vector<double> values(seen.begin(), seen.end());
  observed_.add(values);
  for (std::size_t i = 0; i < seen.size(); ++i)
    x[i] = static_cast<float>((values[i] - observed_.mean(i)) / observed_.deviation(i));
}

double EnvironmentLoop::scaled(World& world, double reward) {
  if (!options_.scale_rewards) return reward;
  world.discounted = options_.discount * world.discounted + reward;
  rewarded_.add({&world.discounted, 1});
  return reward / rewarded_.deviation(0);
}

/// At random with a share that falls; else the first of the largest.
std::uint32_t EnvironmentLoop::choose_by_values(std::size_t session, std::span<const float> values,
                                                std::uint64_t step) const {
  const double past = options_.explore_steps == 0 || step >= options_.explore_steps
                          ? 1.0
                          : static_cast<double>(step) / static_cast<double>(options_.explore_steps);
  const double share = options_.explore_begin + (options_.explore_end - options_.explore_begin) * past;
  RandomStream random = draws(options_.seed, step, worlds_.size(), session);
  if (static_cast<double>(random.next_uniform()) < share)
    return random.next_below(static_cast<std::uint32_t>(values.size()));
  return static_cast<std::uint32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

double EnvironmentLoop::mean_return() const noexcept {
  const std::uint64_t count = std::min<std::uint64_t>(ended_episodes(), kReturns);
  double sum = 0.0;
  for (std::uint64_t i = 0; i < count; ++i) sum += returns_[i];
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

template <class Self, class Archive>
void EnvironmentLoop::visit_fields(Self& self, Archive& archive) {
  archive.same(Field{"environment", Scope::control}, static_cast<std::uint64_t>(self.options_.environment.kind));
  if (self.worlds_.size() > 1)
    archive.same(Field{"environments", Scope::control}, static_cast<std::uint64_t>(self.worlds_.size()));
  archive(Field{"steps", Scope::control}, self.steps_);
  for (auto& world : self.worlds_) {
    archive(Field{"episodes", Scope::control}, world.episodes);
    archive(Field{"in_episode", Scope::control}, world.in_episode);
    archive(Field{"sum", Scope::control}, world.sum);
    archive(Field{"discounted", Scope::control}, world.discounted);
    archive(Field{"next_choice", Scope::control}, world.next_choice);
  }
  RunningMoments::visit(self.observed_, archive, "observed");
  RunningMoments::visit(self.rewarded_, archive, "rewarded");
  archive(Field{"x", Scope::control}, std::span(self.x_));
  archive(Field{"returns", Scope::control}, std::span(self.returns_));
}

std::vector<std::byte> EnvironmentLoop::save() const {
  mesh::ByteArchive bytes;
  mesh::WriteArchive archive(bytes, kState);
  visit_fields(*this, archive);
  for (const World& world : worlds_) std::as_const(*world.environment).visit(archive);
  if (is_external()) EpisodeTrail::visit(trail_, archive);
  return {bytes.bytes().begin(), bytes.bytes().end()};
}

bool EnvironmentLoop::is_possible() const noexcept {
  const auto is_finite = [](double value) { return std::isfinite(value); };
  const auto is_good = [&](const World& world) {
    return world.in_episode <= 1 && world.in_episode <= world.episodes &&
           world.next_choice < std::max<std::size_t>(environment().shape().choices, 1) && std::isfinite(world.sum) &&
           std::isfinite(world.discounted);
  };
  return std::all_of(worlds_.begin(), worlds_.end(), is_good) && std::all_of(x_.begin(), x_.end(), is_finite) &&
         std::all_of(returns_.begin(), returns_.end(), is_finite);
}

Status EnvironmentLoop::load(ByteSpan bytes) {
  // Without what is kept of an episode, whose length is its own.
  const std::size_t wanted = save().size() - trail_.bytes_of_actions();
  if (bytes.size() < wanted || (bytes.size() > wanted && !is_external()))
    return fail(Errc::shape_mismatch, "environment's state: " + std::to_string(bytes.size()) + " bytes where " +
                                          std::string(name(options_.environment.kind)) + " has " +
                                          std::to_string(wanted));
  mesh::ReadArchive archive(bytes, kState);
  visit_fields(*this, archive);
  if (archive.has_failed())
    return fail(Errc::shape_mismatch,
                "environment's state: of another environment than " + std::string(name(options_.environment.kind)));
  bool is_good = true;
  for (World& world : worlds_)
    is_good = is_good && world.environment->visit(archive) && (world.in_episode == 0 || world.environment->is_begun());
  if (is_good && is_external()) EpisodeTrail::visit(trail_, archive);
  is_good = is_good && !archive.has_failed() && is_possible() && trail_.is_possible() && save().size() == bytes.size();
  if (!is_good)
    return fail(Errc::corrupt,
                "environment's state: no such state of " + std::string(name(options_.environment.kind)) + " can be");
  ended_.clear();
  exchange_ = {};
  answers_.clear();
  return {};
}

}  // namespace weft::agent
