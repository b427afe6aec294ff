// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"
#include "learning/table.hpp"

#include "storage/file_system.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::learning {

class TaughtOutputs;

/// Classes of labels.
struct ClassSet {
  std::uint32_t count = 0;           // labels are below this
  std::vector<std::string> names{};  // [count]; empty: the labels of the table are the numbers
};

/// A file that samples were read from.
struct SourceFile {
  std::string path;
  Hash128 hash;  // of its bytes, as they are stored
};

/// Samples with labels or values to learn, in memory.
struct Dataset {
  std::size_t size = 0, features = 0;
  std::size_t targets = 1;                  // labels or values of a sample
  std::uint32_t classes = 0;                // labels are below this
  std::vector<float> inputs;                // [size][features]; not a number where a mean is still to be put
  std::vector<std::uint32_t> labels;        // [size][targets]; kNoLabel where a sequence has none. Empty: values
  std::vector<std::string> class_names{};   // [classes]; empty: the labels of the table are the numbers
  std::vector<ClassSet> heads{};            // of each target that has classes of its own, instead of the two above
  std::vector<float> values{};              // [size][targets], in the table's units; empty: labels
  std::vector<float> weights{};             // [size], factors of gradients; empty: all are 1
  std::vector<std::string> names{};         // of the features; empty without a header
  std::vector<std::string> target_names{};  // empty without a header
  std::size_t validated = 0, tested = 0;    // last rows, of files of their own: first the one, then the other
  bool has_pixels = false;                  // bytes of an IDX file
  bool learns_values = false;               // also where there are no rows yet
  std::size_t dropped = 0, missing = 0;     // rows left out; values that were not there
  std::vector<SourceFile> files{};          // all that were read: of an IDX file also the one with its labels

  const float* row(std::size_t i) const noexcept { return inputs.data() + i * features; }
  bool has_values() const noexcept { return learns_values || !values.empty(); }
  /// The classes of label `i` of a sample.
  ClassSet classes_of(std::size_t i) const { return heads.empty() ? ClassSet{classes, class_names} : heads[i]; }
};

/// Labels that a table may have, seen from the network that is to give them.
struct LabelBounds {
  std::uint32_t width = 65536;         // values of its output, or of a place of it
  std::vector<std::uint32_t> heads{};  // the same for each column of labels, where each has classes of its own
  /// Labels that are no numbers below `width` are given numbers, in ascending order. False: a model has learned what
  /// its numbers mean.
  bool may_number = true;
};

/// The bounds that a network sets. A loss of values learns `options.targets`, which are the label's columns where none
/// are named. @error invalid_argument, unsupported: columns that the loss has no use for
Result<LabelBounds> label_bounds(const TaughtOutputs& outputs, const LearningOptions& learning, TableOptions& options);

/// Reads a table, or an IDX file with its labels beside it (docs/formats/idx.md). Values where `options.targets` names
/// columns. Labels: names of `options.classes` where there are some; else whole numbers below the width as they are;
/// else each label gets a number, whole numbers ascending, texts in the order of their bytes, and
/// `Dataset::class_names` says which.
/// @error as SampleReader; out_of_range: a label that is none of the classes, or more classes than the output has
///        values; unsupported: labels that are no classes; too_large: more than 2^28 values
Result<Dataset> read_dataset(storage::FileSystem& files, const std::string& path, const TableOptions& options,
                             const LabelBounds& bounds = {});

/// Path of the labels that belong to an IDX file of samples: "train-labels-idx1-ubyte.gz" beside
/// "train-images-idx3-ubyte.gz"; nothing where the name has no "images".
std::optional<std::string> label_file(const std::string& path);

}  // namespace weft::learning
