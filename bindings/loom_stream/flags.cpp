// SPDX-License-Identifier: Apache-2.0

#include "bindings/loom_stream/flags.hpp"

#include "core/printable.hpp"

#include <string_view>

namespace weft::loom_stream {
namespace {

struct TextFlag {
  std::string_view name;
  std::string bridge::StreamFlags::*member;
  std::string_view meaning;
};
constexpr TextFlag kTextFlags[] = {
    {"bedrock", &bridge::StreamFlags::bedrock, "kind of network: dense, cnn1, ..., mixer"},
    {"root", &bridge::StreamFlags::root, "directory with python/<bedrock>/models and python/<bedrock>/fixtures"},
    {"models-dir", &bridge::StreamFlags::models_directory, "where the .entity file goes"},
    {"fixtures-dir", &bridge::StreamFlags::fixtures_directory, "where <fixture_version>.npz lies"},
    {"fixture-version", &bridge::StreamFlags::fixture_version, "the fixture to compute"},
    {"output", &bridge::StreamFlags::output_path, "path of the .entity file"}};
constexpr std::string_view kSkip = "skip-infer";

}  // namespace

Result<CommandLine> read_command_line(std::span<char* const> words) {
  CommandLine line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    std::string_view name = word;
    for (int dash = 0; dash < 2 && name.starts_with('-'); ++dash) name.remove_prefix(1);
    const std::size_t sign = name.find('=');
    const std::string_view key = name.substr(0, sign);
    if (name.size() == word.size())
      return fail(Errc::invalid_argument, in_quotes(word) + " is no flag; the document comes on stdin");
    if (key == "help" || key == "h") line.help = true;
    if (line.help) return line;
    if (key == kSkip) {
      const std::string_view value = sign == name.npos ? "true" : name.substr(sign + 1);
      if (value != "true" && value != "false")
        return fail(Errc::invalid_argument, "-skip-infer is " + in_quotes(value) + ", expected true or false");
      line.flags.skips_inference = value == "true";
      continue;
    }
    const TextFlag* found = nullptr;
    for (const TextFlag& each : kTextFlags)
      if (each.name == key) found = &each;
    if (!found) return fail(Errc::invalid_argument, in_quotes(word) + " is no flag of loom-stream; see --help");
    if (sign == name.npos && i + 1 == words.size())
      return fail(Errc::invalid_argument, in_quotes(word) + " needs a value");
    line.flags.*found->member = sign == name.npos ? std::string(words[++i]) : std::string(name.substr(sign + 1));
  }
  return line;
}

std::string help_text() {
  std::string text =
      "loom-stream: computes a network of planetbridging with Weft and writes its .entity file.\n"
      "Reads one JSON document on stdin, writes one on stdout (docs/bridge.md). Flags say what the document leaves "
      "out:\n";
  for (const TextFlag& each : kTextFlags)
    text += "  -" + std::string(each.name) + " VALUE: " + std::string(each.meaning) + "\n";
  return text + "  -skip-infer: writes the file alone\n";
}

}  // namespace weft::loom_stream
