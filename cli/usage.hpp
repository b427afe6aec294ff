// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/verb.hpp"

#include <span>
#include <string>
#include <string_view>

namespace CLI {
class ParseError;
}

namespace weft::cli {

/// The words of a command line.
using Arguments = std::span<const char* const>;

/// Variables WEFT_ARG_... that no option reads, and those of the verb asked for that are empty or, of a flag, neither
/// yes nor no. @error invalid_argument: names the variable, its value and the nearest one that there is
Status check_environment(std::span<const Verb> verbs, Arguments arguments);

/// Values that are empty: an unset shell variable would otherwise read as "keep nothing".
/// @error invalid_argument: names the option
Status check_values(const CLI::App& verb);

/// A mistake on the command line in one line: the option, its value, what is expected, the word that was probably
/// meant, where to read on.
std::string usage_error(const CLI::App& program, std::span<const Verb> verbs, Arguments arguments,
                        const CLI::ParseError& error);

/// True for "1" and "true".
bool is_yes(std::string_view value) noexcept;

}  // namespace weft::cli
