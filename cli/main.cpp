// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/signals.hpp"
#include "cli/standard_streams.hpp"
#include "cli/usage.hpp"
#include "cli/verb.hpp"

#include "kernels/isa.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <CLI/CLI.hpp>

#include <cxxabi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <typeinfo>
#include <vector>

namespace weft::cli {
namespace {

/// Errors go to stderr, and as JSON to stdout.
int report(const Error& error, bool json) {
  std::fprintf(stderr, "weft: error: %s\n", escaped(error.text()).c_str());
  if (json) print_json({{"event", "error"}, {"code", name(error.code())}, {"text", error.text()}});
  if (error.code() == Errc::interrupted && noted_signal()) return 128 + noted_signal();
  return exit_code(error.code());
}

bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  const char* const value = std::getenv("WEFT_ARG_JSON");
  return value && is_yes(value);
}

/// The exit code of a verb that succeeded: what it said must have been taken.
int after_writing(int code) {
  if (stdout_is_written()) return code;
  if (stdout_reader_is_gone()) return kReaderGone;
  return report(Error(Errc::storage, "stdout could not be written"), false);
}

int run(const Verb& verb, bool json) {
  try {
    // `doctor` says what is wrong with the environment; the others refuse to work in it.
    if (verb.app->get_name() != "doctor")
      if (const Status isa = kernels::check_isa_environment(); !isa) return report(isa.error(), json);
    const Status done = verb.run();
    if (!done) return report(done.error(), json && stdout_is_written());
    return after_writing(0);
  } catch (const std::system_error& refused) {
    if (refused.code() != std::errc::resource_unavailable_try_again)
      return report(Error(Errc::internal, refused.what()), json);
    return report(Error(Errc::full,
                        "a thread could not be started: the system's limit is reached; raise it (ulimit -u, the "
                        "cgroup's pids.max) or give --threads 1"),
                  json);
  } catch (const std::bad_alloc&) {
    return report(Error(Errc::too_large, "not enough memory"), json);
  } catch (const std::exception& unforeseen) {
    return report(Error(Errc::internal, unforeseen.what()), json);
  }
}

/// The words of the command line; `weft help VERB` is `weft VERB --help`.
std::vector<char*> words_of(int argc, char** argv) {
  static char help[] = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (argc < 2 || std::string_view(argv[1]) != "help") return words;
  words.erase(words.begin() + 1);
  words.push_back(help);
  return words;
}

int main_of(int argc, char** argv) {
  CLI::App program("Weft runs neural networks that keep learning while they are used, with the same bits everywhere",
                   "weft");
  program.set_version_flag("--version", "weft " WEFT_VERSION);
  program.require_subcommand(1);
  program.failure_message([](const CLI::App*, const CLI::Error&) { return std::string(); });
  const std::vector<Verb> verbs{
      add_new(program),      add_run(program),    add_predict(program), add_eval(program),     add_inspect(program),
      add_doctor(program),   add_hash(program),   add_bench(program),   add_morph(program),    add_sweep(program),
      add_pack(program),     add_replay(program), add_diff(program),    add_top(program),      add_send(program),
      add_session(program),  add_layers(program), add_options(program), add_tokenize(program), add_import(program),
      add_generate(program), add_chat(program),   add_export(program),  add_view(program),     add_serve(program),
      add_live(program),     add_stream(program), add_plot(program)};
  // CLI11 then reads a verb's environment when that verb was asked for, and only then.
  for (const Verb& verb : verbs) verb.app->parse_complete_callback([] {});
  const bool json = asks_for_json(argc, argv);
  const Arguments arguments(argv, static_cast<std::size_t>(argc));
  if (const Status environment = check_environment(verbs, arguments); !environment)
    return report(environment.error(), json);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return after_writing(program.exit(error));  // --help, --version
    return report(Error(Errc::invalid_argument, usage_error(program, verbs, arguments, error)), json);
  }
  for (const Verb& verb : verbs)
    if (*verb.app) {
      if (const Status values = check_values(*verb.app); !values) return report(values.error(), json);
      return run(verb, json);
    }
  return exit_code(Errc::invalid_argument);
}

/// Memory that ends where no exception may pass, in a kernel's scratch or a destructor, ends the process as a kill
/// would, but in words: nothing is written after it.
[[noreturn]] void end_without_memory() noexcept {
  const std::type_info* const thrown = abi::__cxa_current_exception_type();
  if (!thrown || *thrown != typeid(std::bad_alloc)) std::abort();
  constexpr std::string_view kText = "weft: error: not enough memory\n";
  (void)!write(STDERR_FILENO, kText.data(), kText.size());
  _exit(exit_code(Errc::too_large));
}

}  // namespace
}  // namespace weft::cli

int main(int argc, char** argv) {
  weft::cli::secure_standard_streams();
  std::set_terminate(weft::cli::end_without_memory);
  std::vector<char*> words = weft::cli::words_of(argc, argv);
  return weft::cli::main_of(static_cast<int>(words.size()), words.data());
}
