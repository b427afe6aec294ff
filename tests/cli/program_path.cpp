// SPDX-License-Identifier: Apache-2.0
// The one file that knows where the program was built.

#include "tests/cli/program.hpp"

namespace weft::cli_test {

const char* program_path() { return WEFT_PROGRAM; }

}  // namespace weft::cli_test
