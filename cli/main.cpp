// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/signals.hpp"
#include "cli/verb.hpp"

#include "kernels/isa.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {
namespace {

constexpr int kUsage = 2;

/// Errors go to stderr, and to whoever reads JSON on stdout.
int report(const Error& error, bool json) {
  std::fprintf(stderr, "weft: error: %s\n", error.text().c_str());
  if (json) print_json({{"event", "error"}, {"code", name(error.code())}, {"text", error.text()}});
  if (error.code() == Errc::interrupted && noted_signal()) return 128 + noted_signal();
  return exit_code(error.code());
}

bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return std::getenv("WEFT_ARG_JSON") != nullptr;
}

int run(const Verb& verb, bool json) {
  try {
    // `doctor` says what is wrong with the environment; the others refuse to work in it.
    if (verb.app->get_name() != "doctor")
      if (const Status isa = kernels::check_isa_environment(); !isa) return report(isa.error(), json);
    const Status done = verb.run();
    const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (!done) return report(done.error(), json && is_written);
    if (!is_written) return report(Error(Errc::storage, "stdout could not be written"), false);
    return 0;
  } catch (const std::bad_alloc&) {
    return report(Error(Errc::too_large, "not enough memory"), json);
  } catch (const std::exception& unforeseen) {
    return report(Error(Errc::internal, unforeseen.what()), json);
  }
}

int main_of(int argc, char** argv) {
  CLI::App program("Weft: a mesh of cells that fire on one tick and learn while they run", "weft");
  program.set_version_flag("--version", "weft " WEFT_VERSION);
  program.require_subcommand(1);
  program.failure_message([](const CLI::App*, const CLI::Error&) { return std::string(); });
  const std::vector<Verb> verbs{add_run(program),    add_inspect(program), add_doctor(program), add_hash(program),
                                add_bench(program),  add_morph(program),   add_sweep(program),  add_pack(program),
                                add_replay(program), add_diff(program),    add_top(program),    add_session(program)};
  // CLI11 then reads a verb's environment when that verb was asked for, and only then.
  for (const Verb& verb : verbs) verb.app->parse_complete_callback([] {});
  const bool json = asks_for_json(argc, argv);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    std::string text = error.what();
    const std::string_view first = argc > 1 ? argv[1] : "";
    const bool is_verb =
        std::any_of(verbs.begin(), verbs.end(), [&](const Verb& v) { return v.app->get_name() == first; });
    if (!first.empty() && !is_verb)
      text = "'" + std::string(first) + "' is no " + (first.starts_with("-") ? "flag" : "verb") + " of weft";
    for (const Verb& verb : verbs)
      if (*verb.app) text += " (see weft " + verb.app->get_name() + " --help)";
    if (!is_verb) text += " (see weft --help)";
    report(Error(Errc::invalid_argument, text), json);
    return kUsage;
  }
  for (const Verb& verb : verbs)
    if (*verb.app) return run(verb, json);
  return kUsage;
}

}  // namespace
}  // namespace weft::cli

int main(int argc, char** argv) { return weft::cli::main_of(argc, argv); }
