// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/served_model.hpp"

#include "core/json.hpp"

#include "tests/server/serving.hpp"
#include "tests/support/shared_data.hpp"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::testing {

/// True where the small language model of these tests is there.
inline bool has_stories() { return !shared_data("stories260K").empty(); }

/// An answer in server-sent events.
struct Streamed {
  Reply reply;
  std::vector<Json> events;  // but "[DONE]"
  bool is_done = false;

  /// The text of a choice of completions, or of chat.
  std::string text(std::size_t index = 0) const;
};
/// @pre the body is complete
Streamed streamed(Reply reply);

/// A server with the small language model as "stories": three slots of 128 tokens.
class Stories {
 public:
  explicit Stories(server::ServedModel::Options options = usual());
  explicit Stories(server::ModelTable::Options options);
  static server::ServedModel::Options usual();

  Serving& serving() noexcept { return serving_; }
  server::ServedModel& model() { return *serving_.service().models().find("stories"); }
  Result<std::shared_ptr<server::ServedModel>> load(const std::string& name);
  /// The answer of /v1/completions; a failure of the test where it is none.
  Json complete(const Json& request) const { return ask("/v1/completions", request); }
  Json ask(std::string_view path, const Json& request) const;
  Streamed stream(std::string_view path, const Json& request) const;

 private:
  Serving serving_;
};

}  // namespace weft::testing
