// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// Numbers of a run as it goes, in a directory of its own: an event file for TensorBoard
/// (docs/formats/tensorboard.md), and the same as a table, `scalars.csv`, a line a step.
/// @thread one at a time
class ScalarLog {
 public:
  /// To be asked before a run that begins anew: its steps would jump back in a table that another run has written.
  /// @error invalid_argument: the table there has lines of later steps than `begin`; storage
  static Status check_unused(storage::FileSystem& files, const std::string& directory, const std::string& step,
                             std::uint64_t begin = 0);
  /// `step` and `tags` are the table's columns. The directory is made if it is missing; a table that is there with the
  /// same columns is gone on with, and each call makes an event file of its own.
  /// @error invalid_argument: a table with other columns; storage
  static Result<ScalarLog> open(storage::FileSystem& files, const std::string& directory, const std::string& step,
                                std::vector<std::string> tags);
  /// The table alone, in a data directory. Lines after step `until` are cut off first: of what was not kept, and is to
  /// come again. @error as `open`
  static Result<ScalarLog> open_kept(storage::FileSystem& files, const std::string& directory, const std::string& step,
                                     std::vector<std::string> tags, std::uint64_t until);

  /// A value for each tag, or none at this step. What is not finite is in neither file. After an error it is told once
  /// and nothing more is written: the run goes on.
  void add(std::uint64_t step, std::span<const std::optional<double>> values);
  /// The last step of the table that was found; nothing where it had none.
  std::optional<std::uint64_t> found_step() const noexcept { return found_step_; }
  /// Steps at which the table has a value of `tag` by now; none where it cannot be read.
  std::vector<std::uint64_t> steps_of(std::string_view tag) const;

 private:
  Status write(std::uint64_t step, std::span<const std::optional<double>> values);

  storage::FileSystem* files_ = nullptr;
  std::string directory_;
  std::vector<std::string> tags_;
  std::optional<std::uint64_t> found_step_;
  std::unique_ptr<storage::File> table_;   // null: an error ended it
  std::unique_ptr<storage::File> events_;  // null: the table alone
};

}  // namespace weft::cli
