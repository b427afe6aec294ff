// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/served_model.hpp"

#include "core/json.hpp"

#include <memory>
#include <string>
#include <vector>

namespace weft::server::internal {

/// The answer to a request for texts, whole or as server-sent events. What a kind of request looks like is in classes
/// made of this one.
class TextAnswer : public TextReceiver, public std::enable_shared_from_this<TextAnswer> {
 public:
  TextAnswer(ExchangePointer exchange, std::size_t texts, bool streams)
      : choices_(texts), exchange_(std::move(exchange)), streams_(streams) {}

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
  };

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
  const bool streams_;
  std::shared_ptr<HttpStream> stream_;
  std::string kept_;  // events for which there was no room
  bool is_ending_ = false;
};

}  // namespace weft::server::internal
