// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/text_engine.hpp"
#include "server/internal/sampling.hpp"
#include "server/internal/text_answer.hpp"
#include "server/language_api.hpp"

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server::internal {

/// Bounds of OpenAI's routes.
inline constexpr std::size_t kMostChoices = 16, kMostLogprobs = 20;

/// A request that cannot be answered: status, and what stands in OpenAI's error object.
struct Refusal {
  int status = 400;
  std::string message, param{}, code{}, type{};                  ///< type empty: the usual one of the status
  std::vector<std::pair<std::string, std::uint64_t>> numbers{};  ///< more members of the error
};
HttpResponse response_of(const Refusal& refusal);
/// The answer to a body that is wrong: 400, whatever kind of error it is; `param` is the place that its text begins
/// with.
HttpResponse refusal_of(const Error& error);

/// Hands the body of a request to `read` on the thread that reads requests; what it throws back is answered.
/// `read` gets the body's reader and the model that "model" names, or the mesh.
struct TextCall {
  ExchangePointer exchange;
  JsonReader& body;
  LanguageContext& context;
  std::shared_ptr<ServedModel> model;
  std::shared_ptr<ServedMesh> mesh;
};
/// Nothing: it was handed to the model.
using ReadText = std::function<std::optional<HttpResponse>(TextCall& call)>;
std::function<void(Call)> on_model(LanguageContext& context, ReadText read);
/// The same of what a mesh can do too.
std::function<void(Call)> on_model_or_mesh(LanguageContext& context, ReadText read);

/// "stream", and "include_usage" of "stream_options".
Status read_stream(JsonReader& body, bool& streams, bool& tells_usage);
/// "input" or "prompt": a text, a list of texts, of tokens, or of lists of tokens.
struct Prompt {
  std::string text;  ///< empty where tokens were given
  std::vector<text::TokenId> tokens;
};
Result<std::vector<Prompt>> read_prompts(const JsonValue& value, const ServedModel& model, std::size_t most);

/// The model that `?model=NAME` names, or the usual one (of several, the first); null: the call was answered.
std::shared_ptr<ServedModel> model_of_query(const LanguageContext& context, const Call& call);
/// A text that does not fit the model, as clients know it; nothing where it fits.
std::optional<HttpResponse> unfit(const ServedModel& model, const models::TextRequest& request);
/// {"prompt_tokens", "completion_tokens", "total_tokens", ...}
struct Usage {
  std::size_t prompt = 0, cached = 0, written = 0;
  Json json() const;
};
/// llama.cpp's "timings".
Json timings_of(const models::TextTimes& times);
std::string fresh_id(std::string_view prefix);
std::int64_t unix_time();
/// "weft-0.1-wv1-" and 16 digits of the model's digests: with it, seed and request a text is the same.
std::string fingerprint(const TextCall& call);
/// {"version", "model_digest", "options_digest"}
Json digests_of(const LanguageContext& context, const ServedModel& model);
const char* finish_reason(models::TextChunk::End end);
HttpResponse json_response(const Json& body, int status = 200);

}  // namespace weft::server::internal
