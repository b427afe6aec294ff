// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/request.hpp"

#include "core/result.hpp"

#include <span>
#include <string>

namespace weft::loom_stream {

/// The words after the program's name: flags with one dash or two, `-x v` or `-x=v`; `help` where that is asked for.
struct CommandLine {
  bridge::StreamFlags flags;
  bool help = false;
};

/// @error invalid_argument: a word that is no flag, a flag without its value
Result<CommandLine> read_command_line(std::span<char* const> words);

/// The text of --help.
std::string help_text();

}  // namespace weft::loom_stream
