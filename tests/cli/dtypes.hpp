// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/cli/program.hpp"

namespace weft::cli_test {

inline const Words kAllTypes{"float64", "float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2", "fp4",
                             "int64",   "int32",   "int16",   "int8",     "int4",     "int2",     "uint64",
                             "uint32",  "uint16",  "uint8",   "uint4",    "uint2",    "ternary",  "binary"};

inline Json layer(const std::string& file, std::size_t index) {
  return weft({"inspect", file, "--json", "--weights"}).last()["layers"].at(index);
}

/// The digits after 300 samples, with live state; in `file`.
inline void save_digits(const std::string& file, const Words& more = {}) {
  const Outcome ran = weft(Words{"run", kDigits, "--quiet", "--max-samples", "300", "--save", file} + more);
  ASSERT_EQ(ran.exit, 0) << ran.told();
}

/// Refused with this exit code, naming `names`; nothing is written on stdout.
inline void expect_refused(const Words& arguments, int exit, const std::string& names) {
  const Outcome outcome = weft(arguments);
  EXPECT_EQ(outcome.exit, exit) << names << "\n" << outcome.told();
  EXPECT_TRUE(outcome.err.starts_with("weft: error: ")) << outcome.told();
  EXPECT_NE(outcome.err.find(names), std::string::npos) << "should name " << names << "\n" << outcome.told();
  EXPECT_EQ(outcome.out, "");
}

}  // namespace weft::cli_test
