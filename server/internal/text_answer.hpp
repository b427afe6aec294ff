// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/served_model.hpp"

#include "core/json.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::server::internal {

/// The answer to a request for texts, whole or as server-sent events. What a kind of request looks like is in classes
/// made of this one.
class TextAnswer : public TextReceiver, public std::enable_shared_from_this<TextAnswer> {
 public:
  struct Form {
    bool streams = false, tells_state = false;
  };
  TextAnswer(ExchangePointer exchange, std::size_t texts, Form form)
      : choices_(texts), exchange_(std::move(exchange)), streams_(form.streams), tells_state_(form.tells_state) {}

  void begin() override;
  void take(std::size_t text, models::TextChunk part) override;
  bool is_full() override;
  void wait() override;
  void end() override;
  void fail(HttpResponse why) override;

 protected:
  /// A text so far.
  struct Choice {
    std::string text, stop;
    std::vector<text::TokenId> ids;
    std::vector<models::TokenScore> scores;
    std::vector<float> features;
    models::TextChunk::End end = models::TextChunk::End::none;
    models::TextTimes times;
    std::optional<Hash128> state;
  };
  /// Adds "state_hash" to what is told of a text that has ended, where it was asked for.
  void tell_state(std::size_t text, Json& of) const {
    if (tells_state_ && choices_[text].state) of["state_hash"] = to_string(*choices_[text].state);
  }

  /// Events at the beginning; of a part, which is in its choice already; at the end.
  virtual std::string opening() { return {}; }
  virtual std::string events(std::size_t text, const models::TextChunk& part) = 0;
  virtual std::string closing() { return {}; }
  /// The whole answer. @thread the connection's
  virtual HttpResponse whole() = 0;

  static std::string event(const Json& data) { return "data: " + data.dump(Json::Order::as_set) + "\n\n"; }

  std::vector<Choice> choices_;

 private:
  bool flush();

  const ExchangePointer exchange_;
  const bool streams_, tells_state_;
  std::shared_ptr<HttpStream> stream_;
  std::string kept_;  // events for which there was no room
  bool is_ending_ = false;
};

}  // namespace weft::server::internal
