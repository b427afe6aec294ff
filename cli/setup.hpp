// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/feed_options.hpp"
#include "cli/model.hpp"
#include "cli/output.hpp"
#include "cli/run_flags.hpp"

#include "agent/durability.hpp"
#include "learning/options.hpp"
#include "learning/sample_stream.hpp"

#include "mesh/mesh.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

/// One set of settings, made of file and command line. `spec` carries them all, so a file written from it is complete.
struct RunSetup {
  mesh::NetworkSpec spec;
  learning::LearningOptions learning;
  learning::StreamOptions stream;
  mesh::MeshOptions mesh;
  std::string csv_path, validation_path, test_path;
  FeedOptions feed;                       // samples that arrive, instead of a file's
  std::optional<std::uint64_t> sessions;  // asked for; none: one for each learner
  bool has_given_data = false;            // by --data, not the network's own
  bool has_open_epochs = false;           // neither file nor command line says how often to learn from the data
  std::string data_directory;             // the data directory of an agent; empty: none
  agent::Durability durability;
  std::size_t keep = 3;
  bool salvage = false;
  std::uint64_t probe = 0;  // samples to measure the layers with at the end
};

/// A name for a device, before anything is opened. @error invalid_argument: it is none, with those that there are
Status check_device(const std::string& name);

/// @error invalid_argument: flags that contradict each other; what the sections' readers refuse
Result<RunSetup> make_setup(const Model& model, const RunRequest& request);

/// The files that belong to a model: itself, and the data that its section "stream" names.
std::vector<NamedFile> inputs_of(const Model& model);

}  // namespace weft::cli
