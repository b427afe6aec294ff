// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/run_state.hpp"

#include "storage/checkpoint.hpp"

#include <cstdint>
#include <optional>

namespace weft::cli {

/// Puts `state` where the newest checkpoint left it; the sample that the run goes on from, nothing: afresh.
/// @error invalid_argument: the directory holds a run, and --resume is not given
Result<std::optional<std::uint64_t>> resume(const RunRequest& request, storage::CheckpointStore& store,
                                            RunState& state);
/// Refuses a run that would write over what it reads, and outputs that cannot be written, before any is touched.
Status check_files(const RunRequest& request, const RunSetup& setup);
/// The same for files that no option names: labels that lie beside their samples.
Status check_read(const RunRequest& request, const learning::Dataset& data);
/// Refuses a network of more layers than the header of an .entity file describes, where one is to be written.
Status check_savable(const RunRequest& request, RunState& state);

}  // namespace weft::cli
