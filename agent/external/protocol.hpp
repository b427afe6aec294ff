// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/environments/environment.hpp"
#include "agent/external/answer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::agent {

/// The line protocol of external environments (docs/formats/environment.md): one JSON object a line, a request and its
/// answer by turns. Lines are without their ends here.
inline constexpr std::uint64_t kEnvironmentProtocol = 1;

std::string describe_request();
std::string reset_request(std::uint64_t seed, std::uint64_t episode);
std::string step_request(const Action& action);
std::string close_request();

/// Bytes that a line of such an environment may have.
std::size_t longest_line(const EnvironmentShape& shape) noexcept;

/// The environment's name. @error shape_mismatch: another shape than `shape`; and those below
Result<std::string> read_description(std::string_view line, const EnvironmentShape& shape);
/// @error parse_failed, not_found, unknown_name: no such object, named by key and value; not_finite: a number that is
///        none in binary32; shape_mismatch: an observation of another size; invalid_argument: {"error": text}
Result<Answer> read_reset_answer(std::string_view line, const EnvironmentShape& shape);
Result<Answer> read_step_answer(std::string_view line, const Action& action, const EnvironmentShape& shape);

}  // namespace weft::agent
