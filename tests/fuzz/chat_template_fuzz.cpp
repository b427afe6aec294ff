// SPDX-License-Identifier: Apache-2.0

#include "text/chat_template.hpp"
#include "text/unicode.hpp"

#include "core/assert.hpp"

#include <cstdint>
#include <string>
#include <string_view>

// A template, and after a byte FF, which no UTF-8 has, the content of a message: what is read renders or says why.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::text;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = all.find('\xFF');
  const auto made = ChatTemplate::parse(std::string(all.substr(0, end)));
  if (!made) {
    WEFT_ASSERT(made.error().text().starts_with("chat template:"), "a refusal without its place");
    return 0;
  }
  ChatInput input;
  const std::string content(end == all.npos ? std::string_view("a <b> {{c}}\n") : all.substr(end + 1));
  input.messages = Json::array(
      {Json{{"role", "user"}, {"content", content}}, Json{{"role", "assistant"}, {"n", {1, 2.5, nullptr, true}}}});
  input.tools = Json::array({Json{{"name", "f"}, {"parameters", Json::object()}}});
  input.bos = "<s>";
  input.now = 0;
  const auto text = made->render_marked(input);
  if (!text) {
    WEFT_ASSERT(valid_prefix(text.error().text()) == text.error().text().size(), "an error that is not UTF-8");
    return 0;
  }
  WEFT_ASSERT(valid_prefix(text->text) == text->text.size(), "rendered text is not UTF-8");
  std::size_t at = 0;
  for (const auto& [begin, stop] : text->given) {
    WEFT_ASSERT(at <= begin && begin < stop && stop <= text->text.size(), "ranges that do not ascend");
    at = stop;
  }
  WEFT_ASSERT(*made->render(input) == text->text, "one conversation has two texts");
  return 0;
}
