// SPDX-License-Identifier: Apache-2.0

#include "cli/verb.hpp"

#include "core/byte_size.hpp"

#include <cctype>
#include <utility>

namespace weft::cli {

std::string environment_name(std::string_view flag) {
  std::string name = "WEFT_ARG_";
  for (const char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

CLI::Option* add_flag(CLI::App& verb, const std::string& name, bool& value, const std::string& help) {
  return verb.add_flag("--" + name, value, help)->envname(environment_name(name));
}

CLI::Option* add_device(CLI::App& verb, std::string& value) {
  return add_option(verb, "device", value, "Where to compute, to the same bits; else where the network says")
      ->type_name("cpu|vulkan[:N|:name]");
}

CLI::Option* add_max_memory(CLI::App& verb, std::uint64_t& bytes) {
  const auto read = [&bytes](const std::string& text) {
    const auto size = parse_byte_size(text);
    if (!size) throw CLI::ValidationError("--max-memory", size.error().text());
    bytes = *size;
  };
  return verb
      .add_option_function<std::string>("--max-memory", read,
                                        "Refuse a mesh that by estimate takes more, such as 512M or 2GiB")
      ->type_name("SIZE")
      ->envname(environment_name("max-memory"));
}

CLI::Option* one_of(CLI::Option* option, std::vector<std::string> names) {
  std::string listed;
  for (const std::string& name : names) listed += (listed.empty() ? "" : "|") + name;
  const std::string text = listed + " (Env:" + option->get_envname() + ")";
  return option->type_name("")->option_text(text)->check([names = std::move(names), listed](const std::string& given) {
    for (const std::string& name : names)
      if (name == given) return std::string();
    return "'" + given + "' is none of " + listed;
  });
}

}  // namespace weft::cli
