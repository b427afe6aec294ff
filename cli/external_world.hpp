// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/line_channel.hpp"

#include "agent/environments/environment.hpp"
#include "agent/external/answer_source.hpp"

#include "core/result.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft::cli {

/// An environment that another program is, by the line protocol: a command that is run, or a socket that it listens on.
/// A program that does not stand where the agent's episode does is brought there: the episode is begun again, its
/// actions are sent again, and the answers must be those of before.
class ExternalWorld final : public agent::AnswerSource {
 public:
  struct Place {
    std::string command, socket;  // one of them
    const std::string& name() const noexcept { return command.empty() ? socket : command; }
  };
  /// The program came back to a step of an episode, or could not, and the episode is left (`why`).
  struct Return {
    std::uint64_t episode = 0, steps = 0;
    std::string why{};  // empty: it came back
  };
  /// A request that was not answered as it should be.
  struct Fault {
    std::string request;
    Error error;
  };

  ExternalWorld(Place place, const agent::EnvironmentOptions& options, std::function<void(const Return&)> tell);

  Result<bool> can_go_on(const agent::EpisodePlace& place) override;
  Result<agent::Answer> reset(std::uint64_t seed, std::uint64_t episode) override;
  Result<agent::Answer> step(const agent::Action& action) override;

  const Place& place() const noexcept { return place_; }
  /// The last one, after which it is closed.
  const std::optional<Fault>& fault() const noexcept { return fault_; }
  /// Tells the program that this is the end.
  void close();

 private:
  struct At {
    std::uint64_t seed = 0, episode = 0, steps = 0;
  };
  Status open();
  Result<std::string> ask(const std::string& request, std::chrono::milliseconds timeout);
  template <class T>
  Result<T> good(Result<T> answer, const std::string& request);
  Failure broken(const std::string& request, const Error& error);
  /// Begins the episode again. @return why it is not where it was; empty: it is
  Result<std::string> come_back(const agent::EpisodePlace& place);

  const Place place_;
  const agent::EnvironmentShape shape_;
  const std::chrono::milliseconds timeout_;
  const std::function<void(const Return&)> tell_;
  std::unique_ptr<LineChannel> channel_;
  std::optional<At> at_;  // of the program
  std::optional<Fault> fault_;
};

}  // namespace weft::cli
