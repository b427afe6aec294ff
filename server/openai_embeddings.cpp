// SPDX-License-Identifier: Apache-2.0
// POST /v1/embeddings, and llama.cpp's /embedding.

#include "server/internal/text_call.hpp"
#include "server/language_api.hpp"
#include "server/values.hpp"

#include "core/base64.hpp"

#include <cmath>
#include <span>
#include <utility>

namespace weft::server {
namespace {

using internal::given;
using internal::TextCall;

constexpr std::size_t kMostInputs = 2048;

/// Of length 1; a vector of zeros stays one.
std::vector<float> normalized(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  const double by = sum > 0 ? 1 / std::sqrt(sum) : 0;
  std::vector<float> out;
  for (const float value : values) out.push_back(static_cast<float>(static_cast<double>(value) * by));
  return out;
}

/// Spelling of an answer.
struct Spelling {
  std::string model;
  bool is_base64 = false, is_llama = false;
};

/// The answer: written by hand, as each number has the shortest digits that read back as the same float32.
HttpResponse spell(const Spelling& as, const std::vector<std::vector<float>>& rows, std::size_t tokens) {
  std::string text = as.is_llama ? "[" : R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<float> row = normalized(rows[i]);
    if (i > 0) text += ',';
    text += as.is_llama ? "{\"index\":" : R"({"object":"embedding","index":)";
    text += std::to_string(i) + ",\"embedding\":";
    if (as.is_base64) {
      text += '"' + base64(raw_of(row)) + '"';
    } else {
      if (as.is_llama) text += '[';
      append_rows(text, row, 1, false);
      if (as.is_llama) text += ']';
    }
    text += '}';
  }
  if (as.is_llama) {
    text += ']';
  } else {
    text += "],\"model\":" + Json(as.model).dump() + ",\"usage\":";
    text += Json{{"prompt_tokens", tokens}, {"total_tokens", tokens}}.dump(Json::Order::as_set) + '}';
  }
  HttpResponse response;
  response.body = std::move(text);
  return response;
}

class EmbeddingAnswer final : public internal::TextAnswer {
 public:
  EmbeddingAnswer(ExchangePointer exchange, std::size_t texts, Spelling as)
      : TextAnswer(std::move(exchange), texts, {}), as_(std::move(as)) {}

 private:
  std::string events(std::size_t, const models::TextChunk&) override { return {}; }
  HttpResponse whole() override {
    std::vector<std::vector<float>> rows;
    std::size_t tokens = 0;
    for (Choice& each : choices_) {
      rows.push_back(std::move(each.features));
      tokens += each.times.prompt;
    }
    return spell(as_, rows, tokens);
  }

  const Spelling as_;
};

Status check_dimensions(JsonReader& body, std::size_t width) {
  WEFT_TRY(const std::uint64_t dimensions, internal::natural_or(body, "dimensions", width, 1, 1u << 20));
  if (dimensions == width) return {};
  return fail(Errc::invalid_argument, "dimensions: found " + std::to_string(dimensions) + ", the model has " +
                                          std::to_string(width) + " and was not made to be cut");
}

Result<bool> read_is_base64(JsonReader& body) {
  WEFT_TRY(const std::string format, internal::string_or(body, "encoding_format", "float", 64));
  if (format == "float") return false;
  if (format == "base64") return true;
  return fail(Errc::unknown_name, "encoding_format: '" + format + "' is none of float, base64");
}

std::optional<HttpResponse> embed_texts(TextCall& call, const JsonValue& input, Spelling as) {
  const auto prompts = internal::read_prompts(input, *call.model, kMostInputs);
  if (!prompts) return internal::refusal_of(prompts.error());
  TextJob job;
  job.exchange = call.exchange;
  for (const internal::Prompt& each : *prompts) {
    models::TextRequest& text = job.texts.emplace_back();
    text.prompt = each.tokens;
    text.most_tokens = 0;
    text.wants_features = true;
    if (auto refusal = internal::unfit(*call.model, text)) return refusal;
  }
  job.receiver = std::make_shared<EmbeddingAnswer>(call.exchange, job.texts.size(), std::move(as));
  call.model->submit(std::move(job));
  return std::nullopt;
}

/// Vectors through a mesh of one input, its first output.
Result<ForwardRequest> read_vectors(TextCall& call, const Spelling& as) {
  const MeshDescription& is = call.mesh->description();
  if (is.inputs.size() != 1 || is.outputs.empty())
    return fail(Errc::unsupported, "model '" + is.name + "': only meshes of one input make embeddings");
  const auto value = given(call.body, "input_vectors");
  if (!value)
    return fail(Errc::unsupported, "model '" + is.name + "' has no tokenizer; give \"input_vectors\" of " +
                                       std::to_string(is.inputs[0].width) + " numbers each");
  WEFT_CHECK(check_dimensions(call.body, is.outputs[0].width));
  WEFT_TRY(const auto rows, value->array(1, kMostInputs));
  ForwardRequest forward;
  forward.rows = rows.size();
  ForwardRequest::Port& port = forward.inputs.emplace_back();
  port.name = is.inputs[0].name;
  for (const JsonValue& each : rows) {
    WEFT_TRY(const std::vector<float> row, read_numbers(each.raw(), each.path()));
    if (row.size() != is.inputs[0].width)
      return fail(Errc::shape_mismatch, each.path() + ": found " + std::to_string(row.size()) + " numbers, input '" +
                                            port.name + "' has " + std::to_string(is.inputs[0].width));
    port.values.insert(port.values.end(), row.begin(), row.end());
  }
  forward.outputs = {is.outputs[0].name};
  forward.format = [as, count = forward.rows](const std::vector<std::span<const float>>& outputs) {
    std::vector<std::vector<float>> made;
    const std::size_t width = outputs[0].size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = outputs[0].subspan(i * width, width);
      made.emplace_back(row.begin(), row.end());
    }
    return spell(as, made, 0);
  };
  return forward;
}

std::optional<HttpResponse> embed(TextCall& call) {
  const auto is_base64 = read_is_base64(call.body);
  if (!is_base64) return internal::refusal_of(is_base64.error());
  if (call.mesh) {
    auto forward = read_vectors(call, {call.mesh->name(), *is_base64});
    if (!forward) return internal::refusal_of(forward.error());
    call.mesh->submit(call.exchange, *std::move(forward));
    return std::nullopt;
  }
  if (const Status fine = check_dimensions(call.body, call.model->description().width); !fine)
    return internal::refusal_of(fine.error());
  const auto input = call.body.value("input");
  if (!input) return internal::refusal_of(input.error());
  return embed_texts(call, *input, {call.model->name(), *is_base64});
}

std::optional<HttpResponse> embed_llama(TextCall& call) {
  auto input = given(call.body, "content");
  if (!input) input = given(call.body, "input");
  if (!input) return internal::response_of({400, "content: is not there", "content"});
  return embed_texts(call, *input, {call.model->name(), false, true});
}

}  // namespace

void add_embedding_routes(Router& router, LanguageContext& context) {
  const auto post = [&](const char* path, std::function<void(Call)> handle) {
    router.add({"POST", path, Route::Body::json, false, true, std::move(handle)});
  };
  post("/v1/embeddings", internal::on_model_or_mesh(context, embed));
  for (const char* path : {"/embedding", "/embeddings"}) post(path, internal::on_model(context, embed_llama));
}

}  // namespace weft::server
