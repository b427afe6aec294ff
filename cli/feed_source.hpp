// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/csv/row_reader.hpp"

#include "core/result.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace weft::cli {

/// Bytes of samples that arrive, part by part: a pipe once, files of a directory, connections of a socket.
/// @thread one at a time
class FeedSource {
 public:
  struct Part {
    formats::CsvSource read;
    std::string name;    // in messages
    std::string file{};  // its name in the directory
  };
  /// Called while nothing comes, ten times a second, and before that once. @error ends the waiting
  using Idle = std::function<Status()>;

  virtual ~FeedSource() = default;
  /// Waits for the next part. Nothing: there will be none.
  virtual Result<std::optional<Part>> next(const Idle& idle) = 0;
};

std::unique_ptr<FeedSource> make_pipe_source();
/// Files that appear in `directory`, whole, by a rename, in the order of their names: those behind `last`, and that one
/// first where `goes_on`. Names that begin with a dot do not count.
std::unique_ptr<FeedSource> make_directory_source(std::string directory, std::string last, bool goes_on);
/// Producers that connect to a Unix socket, which is made with mode 0600, one after the other. `rows`: used up so far,
/// told to each as it connects. @error as check_socket; storage
Result<std::unique_ptr<FeedSource>> make_socket_source(const std::string& path, std::function<std::uint64_t()> rows);

}  // namespace weft::cli
