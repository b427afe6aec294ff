// SPDX-License-Identifier: Apache-2.0

#include "text/chat_template.hpp"

#include <gtest/gtest.h>

#include "tests/server/stories.hpp"

namespace {

using namespace weft;
using namespace weft::testing;

const char* const kTemplate =
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' if not shout else 'ASSISTANT: ' }}{% endif %}";
const Json kMessages = Json::array(
    {Json{{"role", "developer"}, {"content", "Tell stories."}}, Json{{"role", "user"}, {"content", "Of a cat."}}});
const char* const kRendered = "system: Tell stories.\nuser: Of a cat.\nassistant: ";

server::ModelTable::Options with_template() {
  return {.serving = Stories::usual(), .chat_template = *text::ChatTemplate::parse(kTemplate)};
}

TEST(Chat, GoesOnFromTheTemplatesText) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories(with_template());
  EXPECT_EQ(stories.ask("/apply-template", {{"messages", kMessages}})["prompt"].text(), kRendered);
  const Json chat =
      stories.ask("/v1/chat/completions", {{"messages", kMessages}, {"temperature", 0}, {"max_completion_tokens", 20}});
  EXPECT_EQ(chat["object"].text(), "chat.completion");
  EXPECT_TRUE(chat["id"].text().starts_with("chatcmpl-"));
  const Json& message = chat["choices"][0]["message"];
  EXPECT_EQ(message["role"].text(), "assistant");
  EXPECT_TRUE(message["refusal"].is_null());
  // The template writes what begins a text: the tokens of its text, without those that the tokenizer would add.
  const auto ids = *stories.model().tokenizer().encode(kRendered, {.add_special = false});
  const Json expected = stories.complete({{"prompt", ids}, {"temperature", 0}, {"max_tokens", 20}});
  EXPECT_EQ(message["content"], expected["choices"][0]["text"]);
  EXPECT_EQ(chat["usage"]["prompt_tokens"], ids.size());
  EXPECT_EQ(chat["usage"]["completion_tokens"], 20);
  const Json parts = Json::array({Json{{"type", "text"}, {"text", "Of "}}, Json{{"type", "text"}, {"text", "a cat."}}});
  Json messages = kMessages;
  messages[1]["content"] = parts;
  EXPECT_EQ(stories.ask("/apply-template", {{"messages", messages}})["prompt"].text(), kRendered);
  const Json loud =
      stories.ask("/apply-template", {{"messages", kMessages}, {"chat_template_kwargs", {{"shout", true}}}});
  EXPECT_TRUE(loud["prompt"].text().ends_with("ASSISTANT: "));
  EXPECT_EQ(stories.serving().ask("GET", "/props").json()["chat_template"].text(), kTemplate);
}

TEST(Chat, StreamsWhatItWouldAnswer) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories(with_template());
  Json request{{"messages", kMessages}, {"seed", 5},         {"max_tokens", 30},     {"n", 2},
               {"logprobs", true},      {"top_logprobs", 2}, {"cache_prompt", false}};
  const Json whole = stories.ask("/v1/chat/completions", request);
  EXPECT_EQ(stories.ask("/v1/chat/completions", request)["choices"], whole["choices"]);
  request["stream"] = true;
  const Streamed plain = stories.stream("/v1/chat/completions", request);
  request["stream_options"] = {{"include_usage", true}};
  const Streamed streamed = stories.stream("/v1/chat/completions", request);
  EXPECT_TRUE(streamed.is_done && plain.is_done);
  EXPECT_EQ(streamed.events.front()["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(streamed.events.back()["usage"], whole["usage"]);
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& choice = whole["choices"][i];
    EXPECT_EQ(streamed.text(i), choice["message"]["content"].text());
    EXPECT_EQ(plain.text(i), choice["message"]["content"].text());
    Json content = Json::array(), reason;
    for (const Json& each : streamed.events) {
      if (each["choices"].empty() || each["choices"][0]["index"] != i) continue;
      for (const Json& token : each["choices"][0]["logprobs"]["content"]) content.push_back(token);
      if (!each["choices"][0]["finish_reason"].is_null()) reason = each["choices"][0]["finish_reason"];
    }
    EXPECT_EQ(content, choice["logprobs"]["content"]);
    EXPECT_EQ(reason, choice["finish_reason"]);
    ASSERT_FALSE(content.empty());
    EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  }
  for (const Json& each : plain.events) {
    EXPECT_EQ(each["choices"].size(), 1u);
    EXPECT_FALSE(each.contains("usage"));
  }
}

TEST(Chat, BeginsAStreamWithTheRoleHoweverShortItIs) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories(with_template());
  for (int i = 0; i < 100; ++i) {
    const Streamed all =
        stories.stream("/v1/chat/completions", {{"messages", kMessages}, {"max_tokens", 1}, {"stream", true}});
    ASSERT_FALSE(all.events.empty());
    EXPECT_EQ(all.events.front()["choices"][0]["delta"]["role"], Json("assistant")) << i;
    EXPECT_TRUE(all.is_done);
  }
}

TEST(Chat, RefusesWhatItWouldNotDo) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories(with_template());
  const auto refused = [&](Json request, int status, const std::string& param) {
    if (!request.contains("messages")) request["messages"] = kMessages;
    const Reply reply = stories.serving().ask("POST", "/v1/chat/completions", request.dump());
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.json()["error"]["param"], param.empty() ? Json() : Json(param)) << reply.body;
  };
  const Json tools = Json::array({Json{{"type", "function"}, {"function", {{"name", "f"}}}}});
  refused({{"tools", tools}}, 501, "tools");
  refused({{"response_format", {{"type", "json_schema"}}}}, 400, "response_format");
  refused({{"top_logprobs", 2}}, 400, "top_logprobs");
  refused({{"messages", Json::array()}}, 400, "messages");
  refused({{"messages", Json::array({Json{{"role", "robot"}, {"content", "a"}}})}}, 400, "messages[0].role");
  refused({{"messages", Json::array({Json{{"role", "user"}}})}}, 400, "messages[0].content");
  const Json picture = Json::array({Json{{"type", "image_url"}}});
  refused({{"messages", Json::array({Json{{"role", "user"}, {"content", picture}}})}}, 501,
          "messages[0].content[0].type");
  EXPECT_EQ(stories
                .ask("/v1/chat/completions", {{"messages", kMessages},
                                              {"tools", tools},
                                              {"tool_choice", "none"},
                                              {"max_tokens", 1},
                                              {"response_format", {{"type", "text"}}},
                                              {"store", false}})["choices"]
                .size(),
            1u);
  // A model without a template says so.
  const Reply none = Stories().serving().ask("POST", "/v1/chat/completions", Json{{"messages", kMessages}}.dump());
  EXPECT_EQ(none.status, 501);
  EXPECT_NE(none.body.find("--chat-template"), std::string::npos);
}

}  // namespace
