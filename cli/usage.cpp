// SPDX-License-Identifier: Apache-2.0

#include "cli/usage.hpp"

#include "core/near_word.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

using Words = std::vector<std::string>;
using Pair = std::pair<std::string_view, std::string_view>;

/// Names that others give to options, and the names here.
constexpr std::array kOptionsElsewhere{
    Pair{"passes", "epochs"},      Pair{"pass", "epochs"},         Pair{"num-epochs", "epochs"},
    Pair{"iterations", "epochs"},  Pair{"learning-rate", "lr"},    Pair{"rate", "lr"},
    Pair{"test-size", "held-out"}, Pair{"validation", "held-out"}, Pair{"validation-split", "held-out"},
    Pair{"csv", "data"},           Pair{"input", "data"},          Pair{"train", "data"},
    Pair{"out", "save"},           Pair{"output", "save"},         Pair{"model", "save"},
    Pair{"jobs", "threads"},       Pair{"workers", "threads"},     Pair{"num-threads", "threads"},
    Pair{"gpu", "device"},         Pair{"home", "state"},          Pair{"dir", "state"},
    Pair{"silent", "quiet"},       Pair{"random-state", "seed"},   Pair{"limit", "max-samples"},
    Pair{"type", "dtype"},         Pair{"precision", "dtype"},     Pair{"logfile", "log"},
    Pair{"continue", "resume"}};
constexpr std::array kVerbsElsewhere{
    Pair{"train", "run"},     Pair{"fit", "run"},           Pair{"learn", "run"},      Pair{"show", "inspect"},
    Pair{"info", "inspect"},  Pair{"summary", "inspect"},   Pair{"quantize", "morph"}, Pair{"convert", "morph"},
    Pair{"compress", "pack"}, Pair{"benchmark", "bench"},   Pair{"monitor", "top"},    Pair{"status", "top"},
    Pair{"man", "help"},      Pair{"version", "--version"}, Pair{"check", "doctor"},   Pair{"score", "eval"},
    Pair{"evaluate", "eval"}, Pair{"test", "eval"},         Pair{"infer", "predict"},  Pair{"classify", "predict"},
    Pair{"init", "new"},      Pair{"create", "new"},        Pair{"server", "serve"}};

std::optional<std::string> elsewhere(std::span<const Pair> table, std::string_view given, const Words& known) {
  for (const auto& [theirs, ours] : table)
    if (theirs == given && std::find(known.begin(), known.end(), ours) != known.end()) return std::string(ours);
  return std::nullopt;
}

std::string suggestion(std::string_view given, std::span<const Pair> table, const Words& known, const char* prefix) {
  auto meant = elsewhere(table, given, known);
  const std::vector<std::string_view> views(known.begin(), known.end());
  if (const auto near = nearest_word(given, views); near && !meant) meant = std::string(*near);
  if (!meant) return {};
  return std::string("; did you mean ") + (meant->starts_with("-") ? "" : prefix) + *meant + "?";
}

/// The verb and what it has parsed below it, such as `session detach`.
std::vector<const CLI::App*> levels(const CLI::App& verb) {
  std::vector<const CLI::App*> all{&verb};
  for (const CLI::App* part : verb.get_subcommands()) all.push_back(part);
  return all;
}

/// The verb and all that it may have below it.
std::vector<const CLI::App*> parts(const CLI::App& verb) {
  std::vector<const CLI::App*> all{&verb};
  for (const CLI::App* part : verb.get_subcommands([](const CLI::App*) { return true; })) all.push_back(part);
  return all;
}

Words long_names(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

const Verb* find_verb(std::span<const Verb> verbs, Arguments arguments) {
  for (const Verb& verb : verbs)
    if (arguments.size() > 1 && verb.app->get_name() == arguments[1]) return &verb;
  return nullptr;
}

bool asks_for_help(Arguments arguments) {
  return std::any_of(arguments.begin() + 1, arguments.end(),
                     [](std::string_view word) { return word == "--help" || word == "-h" || word == "--version"; });
}

bool is_flag(const CLI::Option& option) { return option.get_type_size() == 0 || option.get_items_expected_max() == 0; }

/// An option that was not given but read from the environment, by the "--name: " that begins `text`.
std::string from_environment(const CLI::App& app, const std::string& text, Arguments arguments) {
  const std::string name = text.substr(0, text.find(':'));
  const CLI::Option* option = name.starts_with("--") ? app.get_option_no_throw(name) : nullptr;
  if (!option || option->get_envname().empty() || !std::getenv(option->get_envname().c_str())) return {};
  for (const std::string_view word : arguments)
    if (word == name || word.starts_with(name + "=")) return {};
  return " (from " + option->get_envname() + ")";
}

/// The first argument that nobody wanted.
std::string extra_argument(const CLI::App& app) {
  const Words extras = app.remaining(true);
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const std::string& word) { return word.starts_with("-"); });
  if (option == extras.end())
    return extras.empty() ? "an argument is too much" : "'" + extras.back() + "' is one argument too many";
  const std::string given = option->substr(0, option->find('='));
  const std::string bare =
      given.substr(given.find_first_not_of('-') == std::string::npos ? given.size() : given.find_first_not_of('-'));
  return "'" + given + "' is no option of weft " + app.get_name() +
         suggestion(bare, kOptionsElsewhere, long_names(app), "--");
}

/// True for something required that may be missing because an option is misspelled: that is the error to name.
bool names_no_option(const CLI::App& app, const CLI::ParseError& error) {
  const Words extras = app.remaining(true);
  return dynamic_cast<const CLI::RequiredError*>(&error) &&
         std::any_of(extras.begin(), extras.end(), [](const std::string& word) { return word.starts_with("-"); });
}

/// An option that is missing, with the argument that is one too many for its value.
std::string meant_for(const CLI::App& app, const CLI::ParseError& error) {
  if (!dynamic_cast<const CLI::RequiredError*>(&error)) return {};
  const std::string text = error.what(), name = text.substr(0, text.find(' '));
  const Words extras = app.remaining(true);
  if (!name.starts_with("--") || extras.empty() || extras.front().starts_with("-")) return {};
  return "; did you mean " + name + " " + extras.front() + "?";
}

}  // namespace

bool is_yes(std::string_view value) noexcept { return value == "1" || value == "true"; }

Status check_environment(std::span<const Verb> verbs, Arguments arguments) {
  const Verb* const asked = find_verb(verbs, arguments);
  if (!asked || asks_for_help(arguments)) return {};
  Words known;
  for (const Verb& verb : verbs)
    for (const CLI::App* app : parts(*verb.app))
      for (const CLI::Option* option : app->get_options()) known.push_back(option->get_envname());
  for (char** each = environ; *each; ++each) {
    const std::string_view text = *each;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("WEFT_ARG_") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::vector<Pair> none;
    std::string meant = suggestion(name, none, known, "");
    std::string bare = name.substr(9);
    std::transform(bare.begin(), bare.end(), bare.begin(), [](char c) {
      return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    for (const auto& [theirs, ours] : kOptionsElsewhere)
      if (theirs == bare) meant = "; did you mean " + environment_name(ours) + "?";
    return fail(Errc::invalid_argument, "environment: " + name + ": no option of weft reads it" + meant);
  }
  for (const CLI::App* app : parts(*asked->app)) {
    for (const CLI::Option* option : app->get_options()) {
      const char* const value = option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
      if (!value) continue;
      const std::string_view given = value;
      if (given.empty())
        return fail(Errc::invalid_argument, option->get_envname() + ": is empty; give a value or unset it");
      if (is_flag(*option) && !is_yes(given) && given != "0" && given != "false")
        return fail(Errc::invalid_argument,
                    option->get_envname() + ": '" + std::string(given) + "' is none of 1, true, 0, false");
    }
  }
  return {};
}

/// Texts that may be empty: a prompt, what is tokenized.
bool may_be_empty(const CLI::Option& option) { return option.get_name() == "--prompt" || option.get_name() == "TEXT"; }

Status check_values(const CLI::App& verb) {
  for (const CLI::App* app : levels(verb))
    for (const CLI::Option* option : app->get_options())
      for (const std::string& value : option->results())
        if (value.empty() && !is_flag(*option) && !may_be_empty(*option))
          return fail(Errc::invalid_argument,
                      option->get_name() + ": the value is empty (see weft " + verb.get_name() + " --help)");
  return {};
}

std::string usage_error(const CLI::App& program, std::span<const Verb> verbs, Arguments arguments,
                        const CLI::ParseError& error) {
  const Verb* const asked = find_verb(verbs, arguments);
  const std::string first = arguments.size() > 1 ? arguments[1] : "";
  if (!asked && !first.empty()) {
    Words names;
    for (const Verb& verb : verbs) names.push_back(verb.app->get_name());
    names.insert(names.end(), {"help", "--help", "--version"});
    const bool is_option = first.starts_with("-");
    return "'" + first + "' is no " + (is_option ? "option" : "verb") + " of weft" +
           suggestion(first, kVerbsElsewhere, names, is_option ? "" : "weft ") + " (see weft --help)";
  }
  const CLI::App& app = asked ? *asked->app : program;
  const CLI::App* deepest = levels(app).back();
  std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) || names_no_option(*deepest, error))
    text = extra_argument(*deepest);
  else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) && text.ends_with(" missing"))
    text = text.substr(0, text.find(':')) + ": a value is missing";
  else if (text == "A subcommand is required")
    text = "a verb is required";
  else
    text += from_environment(*deepest, text, arguments) + meant_for(*deepest, error);
  if (asked) return text + " (see weft " + app.get_name() + " --help)";
  return text + " (see weft --help)";
}

}  // namespace weft::cli
