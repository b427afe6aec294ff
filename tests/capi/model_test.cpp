// SPDX-License-Identifier: Apache-2.0
// Language models. The text of a greedy run is that of a binary64 reference (shared data).

#include "core/json.hpp"

#include "calls.hpp"
#include "tests/support/shared_data.hpp"
#include <cmath>
#include <fstream>
#include <iterator>

namespace weft::capi::model_test {
namespace {

using namespace testing_support;

weft_model* load() {
  weft_model* model = nullptr;
  WEFT_EXPECT_OK(weft_model_load(shared_data("stories260K/derived").c_str(), nullptr, &model));
  return model;
}

Json result_of(weft_model* model) {
  return *parse_json(text_of_call([&](char* buffer, std::size_t capacity, std::size_t* needed) {
                       return weft_model_result(model, buffer, capacity, needed);
                     }),
                     "result");
}

TEST(CModel, WritesTheTextOfTheReference) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  std::ifstream file(shared_data("stories260K/derived/golden_greedy.json"));
  const Json golden = *parse_json(std::string(std::istreambuf_iterator<char>(file), {}), "golden");
  const auto ids = golden["ids"].get<std::vector<std::uint32_t>>();
  weft_model* const model = load();
  std::size_t needed = 0;
  WEFT_EXPECT_FAILS(weft_model_result(model, nullptr, 0, &needed), WEFT_NOT_FOUND, "nothing");

  weft_generate_options options{};
  options.size = sizeof options;
  options.is_greedy = options.ignores_ends = 1;
  options.tokens = 40;
  std::string streamed;
  WEFT_ASSERT_OK(weft_model_generate(
      model, "", &options,
      [](void* user, const char* text) {
        *static_cast<std::string*>(user) += text;
        return 0;
      },
      &streamed));
  const Json made = result_of(model);
  EXPECT_EQ(made["text"].get<std::string>(), streamed);
  auto whole = made["prompt_ids"].get<std::vector<std::uint32_t>>();
  for (const std::uint32_t id : made["ids"].get<std::vector<std::uint32_t>>()) whole.push_back(id);
  ASSERT_EQ(whole.size(), 41u);  // the token that begins a text, and forty
  EXPECT_EQ(whole, std::vector<std::uint32_t>(ids.begin(), ids.begin() + 41));
  EXPECT_EQ(made["end"].get<std::string>(), "length");

  WEFT_EXPECT_FAILS(weft_model_generate(
                        model, "Once", &options, [](void*, const char*) { return 1; }, nullptr),
                    WEFT_INTERRUPTED, "stopped");
  // Before the first text too: an empty one asks.
  std::string first = "none";
  WEFT_EXPECT_FAILS(weft_model_generate(
                        model, "Once", &options,
                        [](void* user, const char* text) {
                          *static_cast<std::string*>(user) = text;
                          return 1;
                        },
                        &first),
                    WEFT_INTERRUPTED, "stopped");
  EXPECT_EQ(first, "");
  // And none after that, where a stop string that began has held back text.
  const std::string held = streamed.substr(0, streamed.size() / 2) + "\1";
  const char* const stop = held.c_str();
  options.stops = &stop;
  options.stop_count = 1;
  int calls = 0;
  WEFT_EXPECT_FAILS(weft_model_generate(
                        model, "", &options,
                        [](void* user, const char* text) {
                          EXPECT_EQ(std::string(text), "");
                          return ++*static_cast<int*>(user) >= 6 ? 1 : 0;
                        },
                        &calls),
                    WEFT_INTERRUPTED, "stopped");
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(result_of(model)["text"].get<std::string>(), streamed);  // as it was
  WEFT_EXPECT_OK(weft_model_destroy(model));
  WEFT_EXPECT_FAILS(weft_model_destroy(model), WEFT_BAD_HANDLE, "destroyed");
}

TEST(CModel, TakesBiasesAndGrammars) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  weft_model* const model = load();
  weft_generate_options options{};
  options.size = sizeof options;
  options.is_greedy = options.ignores_ends = 1;
  options.tokens = 3;
  const std::uint32_t ids[] = {77, 78};
  const float biases[] = {1e6f, -INFINITY};
  options.bias_ids = ids;
  options.biases = biases;
  options.bias_count = 2;
  WEFT_ASSERT_OK(weft_model_generate(model, "Once", &options, nullptr, nullptr));
  EXPECT_EQ(result_of(model)["ids"].get<std::vector<std::uint32_t>>(), (std::vector<std::uint32_t>{77, 77, 77}));
  const std::uint32_t beyond[] = {77, 512};
  options.bias_ids = beyond;
  WEFT_EXPECT_FAILS(weft_model_generate(model, "Once", &options, nullptr, nullptr), WEFT_OUT_OF_RANGE,
                    "token 512, the model has 512");
  options.bias_count = 0;
  options.tokens = 100;
  options.json_schema = R"({"type": "array", "items": {"enum": ["a", 12]}, "minItems": 2, "maxItems": 2})";
  WEFT_ASSERT_OK(weft_model_generate(model, "Once", &options, nullptr, nullptr));
  const Json made = result_of(model);
  EXPECT_EQ(made["end"].get<std::string>(), "end");
  const auto list = parse_json(made["text"].get<std::string>(), "text");
  ASSERT_TRUE(list) << list.error().text();
  EXPECT_EQ(list->size(), 2u);
  options.grammar = "root ::= \"x\"";
  WEFT_EXPECT_FAILS(weft_model_generate(model, "Once", &options, nullptr, nullptr), WEFT_INVALID_ARGUMENT,
                    "one of them");
  options.json_schema = nullptr;
  options.repetition_penalty = -1;
  WEFT_EXPECT_FAILS(weft_model_generate(model, "Once", &options, nullptr, nullptr), WEFT_OUT_OF_RANGE,
                    "repetition_penalty");
  WEFT_EXPECT_OK(weft_model_destroy(model));
}

TEST(CModel, TakesPresetsAndSteps) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  weft_model* const model = load();
  weft_generate_options options{};
  options.size = sizeof options;
  options.tokens = 40;
  options.seed = 3;
  const auto made = [&] {
    EXPECT_EQ(weft_model_generate(model, "Once", &options, nullptr, nullptr), WEFT_OK) << weft_last_error();
    return result_of(model)["ids"].get<std::vector<std::uint32_t>>();
  };
  const auto usual = made();
  options.is_greedy = 1;
  const auto greedy = made();
  options.is_greedy = 0;
  EXPECT_NE(usual, greedy);
  options.preset = "hf";  // do_sample is false there
  EXPECT_EQ(made(), greedy);
  options.preset = "llama.cpp";
  EXPECT_EQ(made(), usual);
  options.preset = "vllm";
  WEFT_EXPECT_FAILS(weft_model_generate(model, "", &options, nullptr, nullptr), WEFT_UNKNOWN_NAME, "vllm");
  options.preset = nullptr;
  options.top_n_sigma = 1e-4;
  EXPECT_EQ(made(), greedy);
  options.top_n_sigma = -1;
  EXPECT_EQ(made(), usual);
  options.mirostat = 2;
  options.mirostat_tau = -1;  // 0
  EXPECT_EQ(made(), greedy);
  options.mirostat = 3;
  WEFT_EXPECT_FAILS(weft_model_generate(model, "", &options, nullptr, nullptr), WEFT_OUT_OF_RANGE,
                    "mirostat 3 is not between 0 and 2");
  options.mirostat = 0;
  options.xtc_probability = NAN;
  WEFT_EXPECT_FAILS(weft_model_generate(model, "", &options, nullptr, nullptr), WEFT_OUT_OF_RANGE, "xtc_probability");
  options.xtc_probability = 0;
  options.samplers = "top_k;top_k";
  WEFT_EXPECT_FAILS(weft_model_generate(model, "", &options, nullptr, nullptr), WEFT_DUPLICATE_NAME, "top_k");
  options.samplers = "";
  EXPECT_NE(made(), usual);
  options.samplers = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
  EXPECT_EQ(made(), usual);
  const char* const breakers[] = {"a", ""};
  options.dry_multiplier = 1;
  options.dry_sequence_breakers = breakers;
  options.dry_sequence_breaker_count = 2;
  WEFT_EXPECT_FAILS(weft_model_generate(model, "", &options, nullptr, nullptr), WEFT_INVALID_ARGUMENT,
                    "dry_sequence_breakers[1]: an empty text");
  options.dry_sequence_breaker_count = 1;
  made();
  options.size = offsetof(weft_generate_options, preset);  // of a program that was built before
  EXPECT_EQ(made(), usual);
  WEFT_EXPECT_OK(weft_model_destroy(model));
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(CModel, IsLoadedFromBytes) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  weft_generate_options options{};
  options.size = sizeof options;
  options.tokens = 20;
  const auto made = [&](weft_model* model) {
    EXPECT_EQ(weft_model_generate(model, "Once", &options, nullptr, nullptr), WEFT_OK) << weft_last_error();
    auto ids = result_of(model)["ids"].get<std::vector<std::uint32_t>>();
    WEFT_EXPECT_OK(weft_model_destroy(model));
    return ids;
  };
  const auto expected = made(load());
  std::vector<std::string> contents;
  const std::vector<const char*> names{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"};
  for (const char* const name : names) contents.push_back(content_of(shared_data("stories260K/derived") + "/" + name));
  std::vector<weft_file_bytes> files;
  for (std::size_t i = 0; i < names.size(); ++i) files.push_back({names[i], contents[i].data(), contents[i].size()});
  weft_model* model = nullptr;
  WEFT_ASSERT_OK(weft_model_load_bytes(files.data(), files.size(), nullptr, &model));
  EXPECT_EQ(made(model), expected);
  const std::string path = shared_data("stories260K/derived") + "/stories260K-f32.gguf", content = content_of(path);
  const weft_file_bytes one{"model.gguf", content.data(), content.size()};
  WEFT_ASSERT_OK(weft_model_load(path.c_str(), nullptr, &model));
  const auto of_gguf = made(model);
  WEFT_ASSERT_OK(weft_model_load_bytes(&one, 1, nullptr, &model));
  EXPECT_EQ(made(model), of_gguf);
  WEFT_EXPECT_FAILS(weft_model_load_bytes(files.data(), 2, nullptr, &model), WEFT_NOT_FOUND, "holds no tokenizer");
  WEFT_EXPECT_FAILS(weft_model_load_bytes(&files[2], 1, nullptr, &model), WEFT_PARSE_FAILED, "neither an .entity file");
  WEFT_EXPECT_FAILS(weft_model_load_bytes(files.data(), 0, nullptr, &model), WEFT_INVALID_ARGUMENT, "0 are given");
  WEFT_EXPECT_FAILS(weft_model_load_bytes(nullptr, 2, nullptr, &model), WEFT_INVALID_ARGUMENT, "files: NULL");
  const weft_file_bytes up[] = {{"../a", "x", 1}, {"b", "x", 1}};
  WEFT_EXPECT_FAILS(weft_model_load_bytes(up, 2, nullptr, &model), WEFT_INVALID_ARGUMENT, "\"../a\" is no name");
}

TEST(CModel, TokensGoThereAndBack) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  weft_model* const model = load();
  std::size_t needed = 0;
  std::uint32_t ids[64];
  WEFT_ASSERT_OK(weft_model_tokenize(model, "Once upon a time", ids, 64, &needed));
  ASSERT_GT(needed, 2u);
  std::uint32_t few[2] = {7, 7};
  WEFT_EXPECT_FAILS(weft_model_tokenize(model, "Once upon a time", few, 2, nullptr), WEFT_TOO_SMALL, "room for 2");
  EXPECT_EQ(few[0], 7u);
  const std::string text = text_of_call([&](char* buffer, std::size_t capacity, std::size_t* size) {
    return weft_model_detokenize(model, ids, needed, buffer, capacity, size);
  });
  EXPECT_NE(text.find("Once upon a time"), std::string::npos) << text;
  WEFT_EXPECT_OK(weft_model_destroy(model));
}

TEST(CModel, WrongCallsAreNamed) {
  weft_model* model = nullptr;
  WEFT_EXPECT_FAILS(weft_model_load("/no/where", nullptr, &model), WEFT_NOT_FOUND, "/no/where");
  WEFT_EXPECT_FAILS(weft_model_load(nullptr, nullptr, &model), WEFT_INVALID_ARGUMENT, "path: NULL");
  WEFT_EXPECT_FAILS(weft_model_generate(nullptr, "", nullptr, nullptr, nullptr), WEFT_BAD_HANDLE, "model: NULL");
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  model = load();
  weft_generate_options options{};
  options.size = sizeof options;
  options.top_p = 1.5;
  WEFT_EXPECT_FAILS(weft_model_generate(model, "", &options, nullptr, nullptr), WEFT_OUT_OF_RANGE, "top_p");
  options.top_p = 0;
  options.tokens = std::uint64_t{1} << 40;
  WEFT_EXPECT_FAILS(weft_model_generate(model, "", &options, nullptr, nullptr), WEFT_OUT_OF_RANGE, "tokens");
  options.tokens = 1;
  options.stop_count = 1;
  WEFT_EXPECT_FAILS(weft_model_generate(model, "", &options, nullptr, nullptr), WEFT_INVALID_ARGUMENT, "stops: NULL");
  WEFT_EXPECT_OK(weft_model_destroy(model));
}

}  // namespace
}  // namespace weft::capi::model_test
