// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/number.hpp"

#include "core/option_row.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// CLI11 takes a compiler four seconds a file: verb.cpp and main.cpp alone see it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft::cli {

/// One verb: its options on the command line and what it does. Failures are printed by `main`, nowhere else.
struct Verb {
  CLI::App* app = nullptr;
  std::function<Status()> run;
};

Verb add_run(CLI::App& program);
Verb add_new(CLI::App& program);
Verb add_predict(CLI::App& program);
Verb add_eval(CLI::App& program);
Verb add_inspect(CLI::App& program);
Verb add_doctor(CLI::App& program);
Verb add_hash(CLI::App& program);
Verb add_bench(CLI::App& program);
Verb add_morph(CLI::App& program);
Verb add_sweep(CLI::App& program);
Verb add_session(CLI::App& program);
Verb add_replay(CLI::App& program);
Verb add_diff(CLI::App& program);
Verb add_pack(CLI::App& program);
Verb add_top(CLI::App& program);
Verb add_send(CLI::App& program);
Verb add_layers(CLI::App& program);
Verb add_options(CLI::App& program);
Verb add_tokenize(CLI::App& program);
Verb add_import(CLI::App& program);
Verb add_generate(CLI::App& program);
Verb add_chat(CLI::App& program);
Verb add_export(CLI::App& program);
Verb add_view(CLI::App& program);
Verb add_serve(CLI::App& program);
Verb add_live(CLI::App& program);
Verb add_stream(CLI::App& program);
Verb add_plot(CLI::App& program);

/// "WEFT_ARG_CHECKPOINT_EVERY" for "checkpoint-every".
std::string environment_name(std::string_view flag);

/// An argument or a flag just declared, to say more of it.
class Flag {
 public:
  explicit Flag(CLI::Option* option) noexcept : option_(option) {}
  Flag required() const;
  /// The value's name in the help.
  Flag type_name(const std::string& name) const;
  /// Only numbers from `least` to `most`, both written plainly; the message shows the value and the range.
  Flag within(double least, double most) const;
  Flag within(std::uint64_t least, std::uint64_t most) const;
  /// Several values in one, with commas between them.
  Flag between_commas() const;
  /// All values given, where the flag may be repeated.
  Flag take_all() const;
  /// One value for each time the flag is given, so that an argument may follow.
  Flag one_a_flag() const;
  /// Refuses values outside `names`; the help shows the argument as it is.
  Flag member_of(std::vector<std::string> names) const;

 private:
  friend Flag add_executor(CLI::App& verb, std::string& value);
  friend Flag one_of(Flag flag, std::vector<std::string> names);
  friend Flag names_a_file(Flag flag);
  CLI::Option* option_;
};

CLI::App* add_verb(CLI::App& program, const std::string& name, const std::string& help);
/// Makes the verb useless without one of its own verbs.
void require_part(CLI::App& verb);
/// True when the command line named this verb.
bool is_given(const CLI::App& verb);

/// `VALUE`. Both for the types that verb.cpp lists.
template <class T>
Flag add_argument(CLI::App& verb, const std::string& name, T& value, const std::string& help);
/// `--name VALUE`, and its environment variable. Numbers are plain decimal ones that T holds.
template <class T>
Flag add_option(CLI::App& verb, const std::string& name, T& value, const std::string& help);
/// The flag of an option of network files: its words and its values are the row's.
Flag limit_values(Flag flag, const OptionRow& row);
std::string help_of(const OptionRow& row);
template <class T>
Flag add_option(CLI::App& verb, const std::string& name, T& value, const OptionRow& row) {
  return limit_values(add_option(verb, name, value, help_of(row)), row);
}
/// `--name`, and its environment variable (1 or true; 0 or false).
Flag add_flag(CLI::App& verb, const std::string& name, bool& value, const std::string& help);
/// `--device`: where ticks and learning run.
Flag add_device(CLI::App& verb, std::string& value);
/// `--executor`: who runs the ticks.
Flag add_executor(CLI::App& verb, std::string& value);
/// `--max-memory`: bytes that the verb's mesh may take by estimate.
Flag add_max_memory(CLI::App& verb, std::uint64_t& bytes);
/// `-o FILE.entity`, without which the verb does nothing.
Flag add_output(CLI::App& verb, std::string& value);
/// `-o` where it may be left out.
Flag add_output(CLI::App& verb, std::string& value, const std::string& help, const std::string& type);
/// Refuses values outside `names`, and lists them.
Flag one_of(Flag flag, std::vector<std::string> names);
/// Refuses an empty name: what was to be kept would be lost in silence.
Flag names_a_file(Flag flag);

}  // namespace weft::cli
