// SPDX-License-Identifier: Apache-2.0
// Agents by their directory alone.

#include "agent/agent.hpp"
#include "agent/internal/data_directory.hpp"

#include "mesh/network/network_json.hpp"

#include "storage/file_system.hpp"

#include <algorithm>
#include <utility>

namespace weft::agent {

Result<std::unique_ptr<Agent>> Agent::open(const std::string& directory, const mesh::NetworkSpec& spec,
                                           Options options) {
  Recovery recovery;
  return open(storage::real_file_system(), directory, spec, std::move(options), recovery);
}

Result<std::unique_ptr<Agent>> Agent::open(const std::string& directory, Options options) {
  storage::FileSystem& files = storage::real_file_system();
  const auto nobody = [&] {
    return fail(Errc::not_found, directory + ": no agent is there; Agent::open(directory, network) begins one");
  };
  const auto listed = files.list(directory);
  if (!listed && listed.error().code() != Errc::not_found) return fail(listed.error());
  // Nothing is made in a directory that is not an agent's.
  if (!listed ||
      std::none_of(listed->begin(), listed->end(), [](const auto& name) { return name.starts_with("ckpt-"); }))
    return nobody();
  mesh::NetworkSpec spec;
  {
    // Let go of again: `open` takes it for itself.
    WEFT_TRY(auto store, storage::CheckpointStore::open(files, directory, {.keep = options.keep}));
    std::vector<std::string> passed_over;
    WEFT_TRY(const auto found, internal::find_latest(files, store, passed_over));
    if (!found) return nobody();
    WEFT_TRY(internal::Found saved, internal::read_checkpoint(*found));
    if (!options.extension && saved.extension != "{}")
      return fail(Errc::invalid_argument,
                  directory +
                      ": it is kept by a program that saves a state of its own beside the agent (`weft run`); " +
                      "go on with that, or load " + found->path + " into a mesh");
    WEFT_TRY(spec, mesh::read_network(saved.network, directory));
    if (options.identity.empty()) options.identity = std::move(saved.identity);
  }
  return open(directory, spec, std::move(options));
}

}  // namespace weft::agent
