// SPDX-License-Identifier: Apache-2.0

#include "cli/verb.hpp"

#include "cli/number.hpp"

#include "scheduler/executor_kind.hpp"

#include "core/byte_size.hpp"
#include "core/near_word.hpp"

#include <CLI/CLI.hpp>

#include <cctype>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace weft::cli {

std::string environment_name(std::string_view flag) {
  std::string name = "WEFT_ARG_";
  for (const char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

Flag Flag::required() const { return Flag(option_->required()); }
Flag Flag::type_name(const std::string& name) const { return Flag(option_->type_name(name)); }
Flag Flag::within(std::uint64_t least, std::uint64_t most) const {
  const std::string range =
      least == 0 && most == UINT64_MAX ? "" : std::to_string(least) + " to " + std::to_string(most);
  return Flag(
      option_->transform(CLI::Validator([=](std::string& text) { return check_whole(text, least, most); }, range)));
}
Flag Flag::within(double least, double most) const {
  const std::string range = most < std::numeric_limits<float>::max() ? shown(least) + " to " + shown(most) : "";
  return Flag(
      option_->transform(CLI::Validator([=](std::string& text) { return check_real(text, least, most); }, range)));
}
Flag Flag::between_commas() const { return Flag(option_->delimiter(',')->take_all()->allow_extra_args(false)); }
Flag Flag::take_all() const { return Flag(option_->take_all()); }
Flag Flag::one_a_flag() const { return Flag(option_->allow_extra_args(false)); }
Flag Flag::member_of(std::vector<std::string> names) const {
  return Flag(option_->check(CLI::IsMember(std::move(names))));
}

namespace {

template <class T>
struct Plain {
  using type = T;
};
template <class T>
struct Plain<std::optional<T>> {
  using type = T;
};

}  // namespace

CLI::App* add_verb(CLI::App& program, const std::string& name, const std::string& help) {
  return program.add_subcommand(name, help);
}

void require_part(CLI::App& verb) { verb.require_subcommand(1); }

bool is_given(const CLI::App& verb) { return static_cast<bool>(verb); }

template <class T>
Flag add_argument(CLI::App& verb, const std::string& name, T& value, const std::string& help) {
  return Flag(verb.add_option(name, value, help));
}

template <class T>
Flag add_option(CLI::App& verb, const std::string& name, T& value, const std::string& help) {
  Flag flag(verb.add_option("--" + name, value, help)->envname(environment_name(name)));
  using Plain = typename Plain<T>::type;
  if constexpr (std::unsigned_integral<Plain>)
    flag.within(std::uint64_t{0}, std::uint64_t{std::numeric_limits<Plain>::max()});
  if constexpr (std::floating_point<Plain>)
    flag.within(std::numeric_limits<Plain>::lowest(), std::numeric_limits<Plain>::max());
  return flag;
}

#define WEFT_OPTION_TYPE(...)                                                                               \
  template Flag add_argument<__VA_ARGS__>(CLI::App&, const std::string&, __VA_ARGS__&, const std::string&); \
  template Flag add_option<__VA_ARGS__>(CLI::App&, const std::string&, __VA_ARGS__&, const std::string&)
WEFT_OPTION_TYPE(std::string);
WEFT_OPTION_TYPE(std::vector<std::string>);
WEFT_OPTION_TYPE(double);
WEFT_OPTION_TYPE(std::uint64_t);
WEFT_OPTION_TYPE(std::optional<std::string>);
WEFT_OPTION_TYPE(std::optional<double>);
WEFT_OPTION_TYPE(std::optional<std::uint64_t>);
#undef WEFT_OPTION_TYPE

std::string help_of(const OptionRow& row) {
  std::string help(row.meaning);
  std::erase(help, '`');
  help[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(help[0])));
  return help;
}

Flag limit_values(Flag flag, const OptionRow& row) {
  if (row.kind == OptionKind::choice) return one_of(flag, {row.names.begin(), row.names.end()});
  if (!std::isfinite(row.low) || !std::isfinite(row.high)) return flag;
  if (row.kind == OptionKind::number) return flag.within(row.low, row.high);
  if (row.kind == OptionKind::whole)
    return flag.within(static_cast<std::uint64_t>(row.low), static_cast<std::uint64_t>(row.high));
  return flag;
}

Flag add_flag(CLI::App& verb, const std::string& name, bool& value, const std::string& help) {
  return Flag(verb.add_flag("--" + name, value, help)->envname(environment_name(name)));
}

Flag add_device(CLI::App& verb, std::string& value) {
  return add_option(verb, "device", value, "Where to compute, to the same bits; else where the network says")
      .type_name("cpu|vulkan[:N|:name]");
}

Flag add_executor(CLI::App& verb, std::string& value) {
  const auto& names = scheduler::kExecutorNames;
  const Flag flag = add_option(verb, "executor", value, "Who runs the ticks; the bits are the same");
  flag.option_->check(
      [](const std::string& given) { return given == "tbb" ? "'tbb' is named 'resident' now" : std::string(); });
  return one_of(flag, {names.begin(), names.end()});
}

Flag add_max_memory(CLI::App& verb, std::uint64_t& bytes) {
  const auto read = [&bytes](const std::string& text) {
    const auto size = parse_byte_size(text);
    if (!size) throw CLI::ValidationError("--max-memory", size.error().text());
    bytes = *size;
  };
  return Flag(verb.add_option_function<std::string>("--max-memory", read,
                                                    "Refuse a mesh that by estimate takes more, such as 512M or 2GiB")
                  ->type_name("SIZE")
                  ->envname(environment_name("max-memory")));
}

Flag add_output(CLI::App& verb, std::string& value, const std::string& help, const std::string& type) {
  return Flag(verb.add_option("-o,--output", value, help)->envname(environment_name("output"))).type_name(type);
}

Flag add_output(CLI::App& verb, std::string& value) {
  return names_a_file(add_output(verb, value, "The file to write", "FILE.entity")).required();
}

Flag one_of(Flag flag, std::vector<std::string> names) {
  std::string listed;
  for (const std::string& name : names) listed += (listed.empty() ? "" : "|") + name;
  const std::string text = listed + " (Env:" + flag.option_->get_envname() + ")";
  flag.option_->type_name("")->option_text(text)->check([names = std::move(names), listed](const std::string& given) {
    for (const std::string& name : names)
      if (name == given) return std::string();
    return "'" + given + "' is none of " + listed +
           did_you_mean(given, std::vector<std::string_view>(names.begin(), names.end()));
  });
  return flag;
}

Flag names_a_file(Flag flag) {
  flag.option_->check([](const std::string& given) { return given.empty() ? "names no file" : std::string(); });
  return flag;
}

}  // namespace weft::cli
