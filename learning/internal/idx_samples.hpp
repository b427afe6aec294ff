// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"

#include "storage/file_system.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <string>

namespace weft::learning {

/// Values of a table or IDX file at most.
inline constexpr std::size_t kMaxSampleValues = std::size_t{1} << 28;

/// Content of the file, unpacked where it is; `data` knows then that it was read.
Result<std::string> read_unpacked(storage::FileSystem& files, const std::string& path, Dataset& data);

/// Samples of an IDX file, and their labels in the file beside it: "train-labels-idx1-ubyte.gz" beside
/// "train-images-idx3-ubyte.gz". `data` knows the files read so far.
Result<Dataset> read_idx_samples(storage::FileSystem& files, ByteSpan bytes, const std::string& path,
                                 const TableOptions& options, const LabelBounds& bounds, Dataset data);

}  // namespace weft::learning
