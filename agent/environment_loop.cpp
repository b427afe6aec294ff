// SPDX-License-Identifier: Apache-2.0

#include "agent/environment_loop.hpp"

#include "agent/environments/external.hpp"
#include "agent/external/recorded_answers.hpp"

#include "mesh/memory/byte_archive.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/math.hpp"

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

}  // namespace

EnvironmentLoop::EnvironmentLoop(learning::Learner& learner, ReinforcementOptions options)
    : learner_(learner),
      options_(std::move(options)),
      environment_(make_environment(options_.environment)),
      observed_(environment_->shape().observations),
      rewarded_(1),
      x_(environment_->shape().observations),
      trail_(options_.environment.resend),
      probabilities_(environment_->shape().choices),
      logarithms_(environment_->shape().choices),
      gradient_(environment_->shape().choices),
      values_(options_.algorithm == Algorithm::actor_critic ? 1 : environment_->shape().choices) {}

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
  const EnvironmentShape& shape = environment_->shape();
  const EnvironmentKind kind = options_.environment.kind;
  if (is_external()) WEFT_CHECK(check_external());
  if (shape.choices == 0)
    return fail(Errc::unsupported, "reinforcement.environment.type: actions of '" + std::string(name(kind)) +
                                       "' are values, and choices alone are learned so far; give another");
  if (!learner_.options().traces)
    return fail(Errc::invalid_argument,
                "reinforcement: needs learning.traces true, learning.late 'meet' and "
                "learning.optimizer {\"type\": \"sgd\", \"lr\": 1}");
  if (std::as_const(learner_).mesh().sessions() != 1)
    return fail(Errc::unsupported, "reinforcement: " + std::to_string(std::as_const(learner_).mesh().sessions()) +
                                       " sessions; it acts with one");
  const auto port = graph.find_port(options_.input);
  if (!port) return fail(Errc::unknown_name, "reinforcement.input: no input is named '" + options_.input + "'");
  WEFT_CHECK(check_width("input", options_.input, graph.nodes()[*port].width, shape.observations, kind));
  for (const auto& [key, output, width] :
       {std::tuple("critic", &options_.critic, values_.size()), std::tuple("actor", &options_.actor, shape.choices)}) {
    if (output == &options_.actor && !has_actor()) continue;
    const auto node = graph.find_output(*output);
    if (!node)
      return fail(Errc::unknown_name, "reinforcement." + std::string(key) + ": no output is named '" + *output + "'");
    WEFT_CHECK(check_width(key, *output, graph.nodes()[*node].width, width, kind));
  }
  return {};
}

Status EnvironmentLoop::check_external() const {
  for (const auto& [key, value] : {std::pair("observations", options_.environment.observations),
                                   std::pair("actions", options_.environment.actions)})
    if (value == 0)
      return fail(Errc::invalid_argument, "reinforcement.environment." + std::string(key) +
                                              ": an external environment has a number of its own; give it");
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
  if (!is_external() || !counts_.in_episode) return {};
  const auto goes_on = source_->can_go_on(
      {options_.seed, counts_.episodes - 1, environment_->steps(), trail_.actions(), trail_.answers()});
  if (!goes_on) return cut_off(goes_on.error());
  if (*goes_on) return {};
  end_episode(true);
  trail_.cut();
  return {};
}

Status EnvironmentLoop::cut_off(Error error) {
  exchange_.is_cut_off = true;
  return fail(
      std::move(error).within("step " + std::to_string(counts_.steps + 1) + ", episode " + std::to_string(episode())));
}

Status EnvironmentLoop::take(Result<Answer> answer) {
  if (!answer) return cut_off(std::move(answer).error());
  trail_.add(*answer);
  static_cast<ExternalEnvironment&>(*environment_).put(*answer);
  answers_.push_back(*std::move(answer));
  return {};
}

Result<Outcome> EnvironmentLoop::act(std::uint32_t choice) {
  if (is_external()) WEFT_CHECK(take(source_->step(choice)));
  return environment_->step({choice, {}});
}

Status EnvironmentLoop::step() {
  WEFT_CHECK(go_on());
  if (!counts_.in_episode) WEFT_CHECK(begin_episode());
  const mesh::RunInput input{options_.input, x_};
  WEFT_TRY(const learning::Ticket ticket, learner_.observe({&input, 1}));
  WEFT_TRY(const auto values, learner_.answer(ticket, options_.critic));
  std::uint32_t choice = 0;
  double before = 0.0, decay = options_.discount * options_.lambda;
  if (has_actor()) {
    WEFT_TRY(const auto logits, learner_.answer(ticket, options_.actor));
    choice = choose(logits);
    before = values[0];
  } else {
    const bool is_drawn = options_.algorithm == Algorithm::sarsa && environment_->steps() > 0;
    choice = is_drawn ? static_cast<std::uint32_t>(counts_.next_choice) : choose_by(values, counts_.steps);
    before = values[choice];
    if (options_.algorithm == Algorithm::q && values[choice] < *std::max_element(values.begin(), values.end()))
      decay = 0.0;
  }

  WEFT_TRY(const Outcome outcome, act(choice));
  if (trail_.take_cut()) decay = 0.0;
  ++counts_.steps;
  const bool is_over = outcome.terminated || outcome.truncated;
  counts_.sum += outcome.reward;
  look();
  double error = scaled(outcome.reward) - before;
  if (is_over) end_episode(outcome.truncated);
  if (!outcome.terminated) {
    if (const Status asked = ask_critic(); !asked) {
      WEFT_CHECK(learner_.forgo(ticket));
      return fail(Errc::halted, "value of the next observation: " + asked.error().text());
    }
    counts_.next_choice = options_.algorithm == Algorithm::sarsa ? choose_by(values_, counts_.steps) : 0;
    const double after = options_.algorithm == Algorithm::q ? *std::max_element(values_.begin(), values_.end())
                                                            : values_[counts_.next_choice];
    error += options_.discount * after;
  }
  Status taught = teach(ticket, choice, error, decay, is_over);
  learner_.clear_scores();
  return taught;
}

Status EnvironmentLoop::teach(learning::Ticket ticket, std::uint32_t choice, double error, double decay, bool is_over) {
  learning::TraceSignal signal{static_cast<float>(error), static_cast<float>(decay),
                               static_cast<float>(options_.critic_bound), is_over};
  std::fill(values_.begin(), values_.end(), 0.0f);
  values_[has_actor() ? 0 : choice] = -1.0f;  // its value is to rise
  std::array<learning::Target, 2> targets;
  targets[0].output = options_.critic;
  targets[0].gradient = values_;
  targets[0].signal = signal;
  if (!has_actor()) return learner_.teach(ticket, std::span(targets).first(1));
  set_actor_gradient(choice, error);
  signal.bound = static_cast<float>(options_.actor_bound);
  targets[1].output = options_.actor;
  targets[1].gradient = gradient_;
  targets[1].signal = signal;
  return learner_.teach(ticket, targets);
}

Status EnvironmentLoop::begin_episode() {
  if (is_external()) WEFT_CHECK(take(source_->reset(options_.seed, counts_.episodes)));
  environment_->reset(options_.seed, counts_.episodes++, counts_.steps);
  counts_.in_episode = 1;
  counts_.sum = counts_.discounted = 0.0;
  look();
  return {};
}

void EnvironmentLoop::end_episode(bool truncated) {
  const std::uint64_t number = counts_.episodes - 1;
  returns_[number % kReturns] = counts_.sum;
  ended_.push_back({number, environment_->steps(), counts_.steps, counts_.sum, truncated});
  counts_.in_episode = 0;
}

void EnvironmentLoop::look() {
  const std::span<const float> seen = environment_->observation();
  if (!options_.normalize) {
    std::copy(seen.begin(), seen.end(), x_.begin());
    return;
  }
  const std::vector<double> values(seen.begin(), seen.end());
  observed_.add(values);
  for (std::size_t i = 0; i < x_.size(); ++i)
    x_[i] = static_cast<float>((values[i] - observed_.mean(i)) / observed_.deviation(i));
}

double EnvironmentLoop::scaled(double reward) {
  if (!options_.scale_rewards) return reward;
  counts_.discounted = options_.discount * counts_.discounted + reward;
  rewarded_.add({&counts_.discounted, 1});
  return reward / rewarded_.deviation(0);
}

Status EnvironmentLoop::ask_critic() {
  const mesh::RunInput input{options_.input, x_};
  const mesh::RunOutput output{options_.critic, values_};
  return learner_.predict({&input, 1}, 1, {&output, 1}, 0);
}

/// At random with a share that falls; else the first of the largest.
std::uint32_t EnvironmentLoop::choose_by(std::span<const float> values, std::uint64_t step) const {
  const double past = options_.explore_steps == 0 || step >= options_.explore_steps
                          ? 1.0
                          : static_cast<double>(step) / static_cast<double>(options_.explore_steps);
  const double share = options_.explore_begin + (options_.explore_end - options_.explore_begin) * past;
  RandomStream random(options_.seed, step, RandomPurpose::explore);
  if (static_cast<double>(random.next_uniform()) < share)
    return random.next_below(static_cast<std::uint32_t>(values.size()));
  return static_cast<std::uint32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

std::uint32_t EnvironmentLoop::choose(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (std::size_t j = 0; j < logits.size(); ++j)
    sum += probabilities_[j] = static_cast<double>(kernels::math::exp(logits[j] - largest));
  const double log_sum = kernels::math::log(static_cast<float>(sum));
  for (std::size_t j = 0; j < logits.size(); ++j) {
    probabilities_[j] /= sum;
    logarithms_[j] = static_cast<double>(logits[j] - largest) - log_sum;
  }
  RandomStream random(options_.seed, counts_.steps, RandomPurpose::explore);
  double left = random.next_uniform();
  std::uint32_t choice = 0;
  while (choice + 1 < logits.size() && left >= probabilities_[choice]) left -= probabilities_[choice++];
  return choice;
}

/// By the logits: log p(a) has the slope [j is a] - p, H(p) has -p (log p + H).
void EnvironmentLoop::set_actor_gradient(std::uint32_t choice, double error) {
  double entropy = 0.0;
  for (std::size_t j = 0; j < gradient_.size(); ++j) entropy -= probabilities_[j] * logarithms_[j];
  const double weight = error > 0.0 ? options_.entropy : error < 0.0 ? -options_.entropy : 0.0;
  for (std::size_t j = 0; j < gradient_.size(); ++j) {
    const double taken = (j == choice ? 1.0 : 0.0) - probabilities_[j];
    const double spread = -probabilities_[j] * (logarithms_[j] + entropy);
    gradient_[j] = static_cast<float>(-(taken + weight * spread));
  }
}

double EnvironmentLoop::mean_return() const noexcept {
  const std::uint64_t ended = counts_.episodes - counts_.in_episode, count = std::min<std::uint64_t>(ended, kReturns);
  double sum = 0.0;
  for (std::uint64_t i = 0; i < count; ++i) sum += returns_[i];
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

template <class Self, class Archive>
void EnvironmentLoop::visit_fields(Self& self, Archive& archive) {
  archive.same(Field{"environment", Scope::control}, static_cast<std::uint64_t>(self.options_.environment.kind));
  archive(Field{"steps", Scope::control}, self.counts_.steps);
  archive(Field{"episodes", Scope::control}, self.counts_.episodes);
  archive(Field{"in_episode", Scope::control}, self.counts_.in_episode);
  archive(Field{"sum", Scope::control}, self.counts_.sum);
  archive(Field{"discounted", Scope::control}, self.counts_.discounted);
  archive(Field{"next_choice", Scope::control}, self.counts_.next_choice);
  RunningMoments::visit(self.observed_, archive, "observed");
  RunningMoments::visit(self.rewarded_, archive, "rewarded");
  archive(Field{"x", Scope::control}, std::span(self.x_));
  archive(Field{"returns", Scope::control}, std::span(self.returns_));
}

std::vector<std::byte> EnvironmentLoop::save() const {
  mesh::ByteArchive bytes;
  mesh::WriteArchive archive(bytes, kState);
  visit_fields(*this, archive);
  environment_->visit(archive);
  if (is_external()) EpisodeTrail::visit(trail_, archive);
  return {bytes.bytes().begin(), bytes.bytes().end()};
}

bool EnvironmentLoop::is_possible() const noexcept {
  const auto is_finite = [](double value) { return std::isfinite(value); };
  return counts_.in_episode <= 1 && counts_.in_episode <= counts_.episodes &&
         counts_.next_choice < environment_->shape().choices && std::isfinite(counts_.sum) &&
         std::isfinite(counts_.discounted) && std::all_of(x_.begin(), x_.end(), is_finite) &&
         std::all_of(returns_.begin(), returns_.end(), is_finite);
}

Status EnvironmentLoop::load(ByteSpan bytes) {
  // Without what is kept of an episode, whose length is its own.
  const std::size_t wanted = save().size() - trail_.actions().size_bytes();
  if (bytes.size() < wanted || (bytes.size() > wanted && !is_external()))
    return fail(Errc::shape_mismatch, "environment's state: " + std::to_string(bytes.size()) + " bytes where " +
                                          std::string(name(options_.environment.kind)) + " has " +
                                          std::to_string(wanted));
  mesh::ReadArchive archive(bytes, kState);
  visit_fields(*this, archive);
  if (archive.has_failed())
    return fail(Errc::shape_mismatch,
                "environment's state: of another environment than " + std::string(name(options_.environment.kind)));
  bool is_good = environment_->visit(archive);
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
