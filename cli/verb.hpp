// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/number.hpp"

#include "core/result.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// One verb: its options on the command line and what it does. Failures are printed by `main`, nowhere else.
struct Verb {
  CLI::App* app = nullptr;
  std::function<Status()> run;
};

Verb add_run(CLI::App& program);
Verb add_new(CLI::App& program);
Verb add_predict(CLI::App& program);
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

/// "WEFT_ARG_CHECKPOINT_EVERY" for "checkpoint-every".
std::string environment_name(std::string_view flag);

/// `--name VALUE`, and its environment twin. Numbers are plain decimal ones that T holds.
template <class T>
CLI::Option* add_option(CLI::App& verb, const std::string& name, T& value, const std::string& help) {
  CLI::Option* const option = verb.add_option("--" + name, value, help)->envname(environment_name(name));
  expect_plain_number<T>(option);
  return option;
}
/// `--name`, and its environment twin (1 or true; 0 or false).
CLI::Option* add_flag(CLI::App& verb, const std::string& name, bool& value, const std::string& help);
/// `--device`: where ticks and learning run.
CLI::Option* add_device(CLI::App& verb, std::string& value);
/// `--max-memory`: bytes that the verb's mesh may take by estimate.
CLI::Option* add_max_memory(CLI::App& verb, std::uint64_t& bytes);
/// Refuses values outside `names`, and lists them.
CLI::Option* one_of(CLI::Option* option, std::vector<std::string> names);

}  // namespace weft::cli
