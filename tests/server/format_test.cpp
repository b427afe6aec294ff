// SPDX-License-Identifier: Apache-2.0

#include "models/language_model.hpp"
#include "server/internal/tool_calls.hpp"

#include "text/chat_template.hpp"

#include <gtest/gtest.h>

#include "tests/server/stories.hpp"

namespace {

using namespace weft;
using namespace weft::testing;

const char* const kMarked =
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}"
    "{% for call in message.tool_calls or [] %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}\n"
    "{% endfor %}";
const Json kAskOfACat = Json::array({Json{{"role", "user"}, {"content", "Of a cat."}}});

server::ModelTable::Options with_template(const char* source) {
  return {.serving = Stories::usual(), .chat_template = *text::ChatTemplate::parse(source)};
}
const char* const kPlain = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}";

Json animal() {
  return {{"type", "object"},
          {"properties",
           {{"kind", {{"enum", Json::array({"cat", "dog"})}}}, {"name", {{"type", "string"}, {"maxLength", 6u}}}}},
          {"required", Json::array({"kind", "name"})}};
}
Json tool(const char* name) { return {{"type", "function"}, {"function", {{"name", name}, {"parameters", animal()}}}}; }

void expect_animal(const Json& found) {
  EXPECT_EQ(found.size(), 2u);
  EXPECT_TRUE(found["kind"].text() == "cat" || found["kind"].text() == "dog") << found.dump();
  EXPECT_LE(found["name"].text().size(), 24u) << "6 characters";
}

TEST(Format, ASchemaGivesTheTextThatGenerateWrites) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  for (int seed = 0; seed < 8; ++seed) {
    const Json settings{{"prompt", "Once"}, {"seed", seed}, {"max_tokens", 100}, {"json_schema", animal()}};
    const Json answer = stories.complete(settings);
    const std::string text = answer["choices"][0]["text"].text();
    expect_animal(parse_json(text, "text").value());
    EXPECT_EQ(answer["choices"][0]["finish_reason"].text(), "stop");
    models::GenerateOptions options;
    options.sampler = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .penalty_window = 0};
    options.sampler.seed = static_cast<std::uint64_t>(seed);
    options.most_tokens = 100, options.context = 128;
    options.grammar = text::Grammar::from_json_schema(animal()).value();
    const auto alone =
        models::generate(stories.model().model(), "Once", options, [](std::string_view) { return Status(); });
    ASSERT_TRUE(alone) << alone.error().text();
    EXPECT_EQ(text, alone->text);
  }
}

TEST(Format, LlamasGrammarHoldsATextAndOthersStayAsTheyAre) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json free{{"prompt", "Once"}, {"seed", 1}, {"n_predict", 20}};
  Json held = free;
  held["grammar"] = "root ::= \"yes\" | \"no\"";
  const Json before = stories.ask("/completion", free);
  const std::string answer = stories.ask("/completion", held)["content"].text();
  EXPECT_TRUE(answer == "yes" || answer == "no") << answer;
  EXPECT_EQ(stories.ask("/completion", free)["content"], before["content"]);
  const auto refused = [&](const Json& body, const char* path) {
    const Reply reply = stories.serving().ask("POST", path, body.dump());
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"]["param"];
  };
  held["grammar"] = "root ::= missing";
  EXPECT_EQ(refused(held, "/completion"), "grammar");
  held["grammar"] = "root ::= \"a\"";
  held["json_schema"] = animal();
  EXPECT_EQ(refused(held, "/completion"), "grammar");
  Json schema = free;
  schema["json_schema"] = {{"type", "string"}, {"pattern", "a+"}};
  EXPECT_EQ(refused(schema, "/completion"), "json_schema");
}

TEST(Format, ChatsFollowResponseFormat) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories(with_template(kPlain));
  Json request{{"messages", kAskOfACat}, {"seed", 2}, {"max_tokens", 100}};
  request["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "animal"}, {"schema", animal()}}}};
  const Json answer = stories.ask("/v1/chat/completions", request);
  expect_animal(parse_json(answer["choices"][0]["message"]["content"].text(), "text").value());
  request["stream"] = true;
  EXPECT_EQ(stories.stream("/v1/chat/completions", request).text(), answer["choices"][0]["message"]["content"].text());
  request["stream"] = false;
  for (const Json& format :
       {Json{{"type", "yaml"}}, Json{{"type", "json_schema"}},
        Json{{"type", "json_schema"}, {"json_schema", {{"name", "p"}, {"schema", {{"pattern", "a"}}}}}}}) {
    request["response_format"] = format;
    const Reply reply = stories.serving().ask("POST", "/v1/chat/completions", request.dump());
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_TRUE(reply.json()["error"]["param"].text().starts_with("response_format")) << reply.body;
  }
}

TEST(Format, AToolThatMustBeCalledIs) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  for (const char* const source : {kPlain, kMarked}) {
    Stories stories(with_template(source));
    Json request{{"messages", kAskOfACat},
                 {"seed", 4},
                 {"max_tokens", 120},
                 {"tools", Json::array({tool("pet"), tool("feed")})},
                 {"tool_choice", "required"}};
    // With its tools a prompt may be longer than these slots hold.
    if (source == kMarked) request["tools"] = Json::array({tool("pet")});
    const Reply reply = stories.serving().ask("POST", "/v1/chat/completions", request.dump());
    if (reply.status == 400 && reply.body.find("context_length") != std::string::npos) continue;
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json choice = reply.json()["choices"][0];
    ASSERT_EQ(choice["finish_reason"].text(), "tool_calls") << choice.dump();
    EXPECT_TRUE(choice["message"]["content"].is_null());
    const Json& call = choice["message"]["tool_calls"][0];
    EXPECT_EQ(call["type"].text(), "function");
    expect_animal(parse_json(call["function"]["arguments"].text(), "arguments").value());
    request["stream"] = true;
    Json streamed;
    for (const Json& each : stories.stream("/v1/chat/completions", request).events)
      if (each["choices"][0]["delta"].contains("tool_calls")) streamed = each["choices"][0]["delta"]["tool_calls"][0];
    EXPECT_EQ(streamed["function"], call["function"]);
    request["stream"] = false;
    request["tool_choice"] = {{"type", "function"}, {"function", {{"name", "pet"}}}};
    const Json named = stories.ask("/v1/chat/completions", request);
    EXPECT_EQ(named["choices"][0]["message"]["tool_calls"][0]["function"]["name"].text(), "pet");
  }
}

TEST(Format, ToolsAreRefusedWhereTheyCannotBeHeeded) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories(with_template(kPlain));
  Json request{{"messages", kAskOfACat}, {"max_tokens", 4}, {"tools", Json::array({tool("pet")})}};
  const auto status = [&] { return stories.serving().ask("POST", "/v1/chat/completions", request.dump()).status; };
  EXPECT_EQ(status(), 501) << "the template does not spell calls";
  request["tool_choice"] = "none";
  EXPECT_EQ(status(), 200);
  for (const Json& wrong : {Json("always"), Json{{"type", "function"}, {"function", {{"name", "none_such"}}}}}) {
    request["tool_choice"] = wrong;
    EXPECT_EQ(status(), 400) << wrong.dump();
  }
  request["tool_choice"] = "required";
  request["response_format"] = {{"type", "json_object"}};
  EXPECT_EQ(status(), 400) << "two formats";
  request["tools"] = Json::array();
  EXPECT_EQ(status(), 400) << "no tools";
}

TEST(Format, TemplatesGetToolsAndCallsThatWereMade) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories(with_template(kMarked));
  const Json call{
      {"id", "call_1"}, {"type", "function"}, {"function", {{"name", "pet"}, {"arguments", "{\"kind\": \"cat\"}"}}}};
  const Json messages =
      Json::array({kAskOfACat[0], Json{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                   Json{{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "purr"}}});
  const Json tools = Json::array({Json{{"type", "function"}, {"function", {{"name", "pet"}}}}});
  EXPECT_EQ(stories.ask("/apply-template", {{"messages", messages}, {"tools", tools}})["prompt"].text(),
            "{\"function\": {\"name\": \"pet\"}, \"type\": \"function\"}\nuser: Of a cat.assistant: <tool_call>\n"
            "{\"name\": \"pet\", \"arguments\": {\"kind\": \"cat\"}}\n</tool_call>tool: purr")
      << "the template's line ends behind tags go, as transformers has it";
}

TEST(ToolCallReader, FindsCallsHoweverATextIsCut) {
  const std::string text =
      "Let me see <b>. <tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": [1, \"</b>\"]}}\n</tool_call>\n"
      "<tool_call>{\"name\": \"b\"}</tool_call>\n";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    server::internal::ToolCallReader reader(false);
    std::string content;
    for (std::size_t at = 0; at < text.size(); at += step) content += reader.push(text.substr(at, step));
    content += reader.finish();
    EXPECT_EQ(content, "Let me see <b>. ") << step;
    ASSERT_EQ(reader.calls().size(), 2u) << step;
    EXPECT_EQ(reader.calls()[0].name, "a");
    EXPECT_EQ(parse_json(reader.calls()[0].arguments, "a").value(), parse_json("{\"x\": [1, \"</b>\"]}", "b").value());
    EXPECT_EQ(reader.calls()[1].arguments, "{}");
  }
}

TEST(ToolCallReader, LosesNothingOfWhatIsNoCall) {
  for (const std::string text : {"<tool_call>{\"name\": ", "a <tool_call>no JSON</tool_call> b", "a < b <tool", ""}) {
    server::internal::ToolCallReader reader(false);
    std::string content;
    for (const char each : text) content += reader.push(std::string(1, each));
    EXPECT_EQ(content + reader.finish(), text);
    EXPECT_TRUE(reader.calls().empty());
  }
}

}  // namespace
