// SPDX-License-Identifier: Apache-2.0

#include "models/text_record.hpp"

#include "models/text_replay.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "tests/models/imported.hpp"
#include <limits>

namespace weft::models::text_record_test {
namespace {

Result<LanguageModel> stories() {
  return load_language_model(storage::real_file_system(), shared_data("stories260K/derived"));
}

/// A text that the engine wrote for a request.
TextRecord written(const LanguageModel& model, TextRequest request) {
  TextRecord record;
  record.model = "stories";
  record.version = "test";
  record.digest = digest_of(model);
  record.context = 64;
  record.request = request;
  auto engine = TextEngine::make(model, {.slots = 1, .context = 64});
  EXPECT_TRUE(engine) << engine.error().text();
  request.wants_state = true;
  EXPECT_TRUE(engine->begin(std::move(request)));
  while (engine->step([&](std::size_t, TextChunk part) {
    record.ids.insert(record.ids.end(), part.ids.begin(), part.ids.end());
    record.end = part.end;
    record.state = part.state;
  })) {
  }
  return record;
}

/// Requests that together use all that a record keeps.
std::vector<TextRequest> requests(const LanguageModel& model) {
  std::vector<TextRequest> all(6);
  for (TextRequest& each : all) {
    each.prompt = *model.tokenizer->encode("Once upon a time");
    each.sampler.seed = (std::uint64_t{1} << 60) + 17;
    each.most_tokens = 20;
  }
  all[0].sampler.logit_bias = {{300, 0.1f}, {301, -std::numeric_limits<float>::infinity()}};
  all[0].sampler.frequency_penalty = 0.1 + 0.2;
  all[0].sampler.penalizes_prompt = false;
  all[1].stops = {".", "\n\xc3\xa9"};
  all[1].sampler.no_repeat_ngram = 3;
  all[2].grammar = *text::Grammar::parse("root ::= (\" \" [a-z]+){2,9} \".\"");
  all[4].sampler.steps.mirostat = 2;
  all[4].sampler.steps.mirostat_eta = 0.1 + 0.2;
  all[5].sampler.steps.dry_multiplier = 0.8;
  all[5].sampler.steps.dry_breakers = {"\n", "\xc3\xa9"};
  all[5].sampler.steps.dry_penalty_last_n = 100;
  all[5].sampler.steps.xtc_probability = 0.5;
  all[5].sampler.order = SamplerOptions::hf_order();
  all[3].most_tokens = 1000;  // more than the context holds
  all[3].ignores_ends = true;
  return all;
}

TEST(TextRecord, IsReadBackAsItWasAndWritesTheSameTexts) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  std::vector<TextRecord> records;
  for (TextRequest& each : requests(*model)) {
    const TextRecord record = written(*model, std::move(each));
    const std::string line = to_line(record);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    auto read = read_text_record(std::string_view(line).substr(0, line.size() - 1), "log:1");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(to_line(*read), line);
    records.push_back(*std::move(read));
  }
  EXPECT_EQ(records[1].end, TextChunk::End::stop);
  EXPECT_EQ(records[3].end, TextChunk::End::length);
  EXPECT_LT(records[3].ids.size(), 64u);
  for (const std::size_t slots : {1u, 3u}) {
    const auto made = replay_texts(*model, records, {.slots = slots});
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ(made->texts, 6u);
    for (const auto& each : made->differences) ADD_FAILURE() << each.record << ": " << each.what;
  }
}

TEST(TextRecord, TellsWhereATextDiffers) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  const auto all = requests(*model);
  std::vector<TextRecord> records(5, written(*model, all[0]));
  ++records[1].ids[3];
  records[2].ids.pop_back();
  records[3].end = TextChunk::End::stop;
  ++records[4].state->low;
  const auto made = replay_texts(*model, records, {});
  ASSERT_TRUE(made) << made.error().text();
  ASSERT_EQ(made->differences.size(), 4u);
  const char* const expected[] = {"token 3 is ", "it has 20 tokens, had 19", "it ends by length, ended by stop",
                                  "its state hash is "};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(made->differences[i].record, i + 1);
    EXPECT_TRUE(made->differences[i].what.starts_with(expected[i])) << made->differences[i].what;
  }
}

TEST(TextRecord, HasTheDigestOfWeightsAndOptions) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  const ModelDigest before = digest_of(*model);
  EXPECT_EQ(digest_of(*stories()), before);
  model->ends.push_back(3);
  EXPECT_NE(digest_of(*model).options, before.options);
  EXPECT_EQ(digest_of(*model).weights, before.weights);
  mesh::MeshAccess::weights(*model->mesh).parameters()[0].data[0] += 1;
  EXPECT_NE(digest_of(*model).weights, before.weights);
}

TEST(TextRecord, RefusesWhatIsNone) {
  const std::string digest(32, 'a');
  const std::string whole =
      R"({"weft_text":1,"time":1,"model":"m","version":"v","model_digest":")" + digest + R"(","options_digest":")" +
      digest + R"(","context":64,"request":{"prompt":[1],"max_tokens":3,"sampler":{"temperature":0,)" +
      R"("top_k":0,"top_p":1,"min_p":0,"typical_p":1,"repetition_penalty":1,)" +
      R"("presence_penalty":0,"frequency_penalty":0,"penalty_window":64,"penalizes_prompt":true,)" +
      R"("no_repeat_ngram":0,"seed":1,"logit_bias":[]},"stop":[],"ignore_eos":false},)" +
      R"("ids":[5],"end":"length"})";
  ASSERT_TRUE(read_text_record(whole, "log:1")) << read_text_record(whole, "log:1").error().text();
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string line = whole;
    line.replace(line.find(from), from.size(), to);
    const auto read = read_text_record(line, "log:1");
    return read ? "taken" : read.error().text();
  };
  EXPECT_EQ(refused("\"weft_text\":1", "\"weft_text\":2"),
            "log:1.weft_text: found 2, expected a whole number from 1 to 1");
  EXPECT_NE(refused("\"temperature\":0", "\"temperature\":-1").find("log:1.request.sampler.temperature"),
            std::string::npos);
  EXPECT_NE(refused("[1]", "[]").find("log:1.request.prompt"), std::string::npos);
  EXPECT_NE(refused("[5]", "[-5]").find("log:1.ids[0]"), std::string::npos);
  EXPECT_NE(refused(digest, "0").find("32 hexadecimal digits"), std::string::npos);
  EXPECT_NE(refused("\"length\"", "\"failed\"").find("log:1.end"), std::string::npos);
  EXPECT_NE(refused("\"seed\":1", "\"seed\":1,\"sed\":2").find("sed"), std::string::npos);
  EXPECT_NE(refused("\"stop\":[]", "\"stop\":[],\"grammar\":\"root ::=\\\"\"").find("grammar"), std::string::npos);
  EXPECT_NE(refused("}", "").find("log:1"), std::string::npos);
  const auto with = [&](const std::string& setting) { return refused("\"seed\":1", "\"seed\":1," + setting); };
  const std::string sampler = "log:1.request.sampler.";
  EXPECT_TRUE(with("\"mirostat\":0.5").starts_with(sampler + "mirostat: found 0.5"));
  EXPECT_TRUE(with("\"mirostat\":3").starts_with(sampler + "mirostat: found 3"));
  EXPECT_TRUE(with("\"dry_base\":1e300").starts_with(sampler + "dry_base: found"));
  EXPECT_TRUE(with("\"dry_sequence_breakers\":[\"\"]").starts_with(sampler + "dry_sequence_breakers[0]: an empty"));
  EXPECT_TRUE(with("\"samplers\":[\"top_k\",\"top_k\"]").starts_with(sampler + "samplers: \"top_k\" is there twice"));
}

TEST(TextRecord, ReadsLinesOfLogsThatLackLaterSettings) {
  TextRecord record;
  record.request.prompt = {1};
  record.ids = {5};
  record.end = TextChunk::End::length;
  record.context = 4;
  std::string line = to_line(record);
  line.pop_back();
  const std::size_t begin = line.find("\"dynatemp_range\""), end = line.find("\"seed\"");
  ASSERT_LT(begin, end);
  line.erase(begin, end - begin);
  const auto read = read_text_record(line, "log:1");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(to_line(*read), to_line(record));
  line.insert(begin, "\"temperature_first\":true,");
  const auto early = read_text_record(line, "log:1");
  ASSERT_TRUE(early) << early.error().text();
  EXPECT_EQ(early->request.sampler.order, SamplerOptions::hf_order());
}

}  // namespace
}  // namespace weft::models::text_record_test
