// SPDX-License-Identifier: Apache-2.0

#include "agent/saved_extension.hpp"

#include "agent/internal/data_directory.hpp"

#include "storage/checkpoint.hpp"

#include <utility>

namespace weft::agent {

Result<SavedExtension> read_saved_extension(storage::FileSystem& files, const std::string& directory) {
  WEFT_TRY(auto store, storage::CheckpointStore::look(files, directory));
  const auto keys = store.keys();
  if (keys.empty()) return fail(Errc::not_found, directory + ": no agent is there: it has no checkpoint");
  std::string reasons;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    auto checkpoint = store.at(*key);
    auto found =
        checkpoint ? internal::read_checkpoint(*checkpoint) : Result<internal::Found>(fail(checkpoint.error()));
    if (found)
      return SavedExtension{found->tick, std::move(found->network), std::move(found->identity),
                            std::move(found->extension)};
    reasons += "; " + found.error().text();
  }
  return fail(Errc::corrupt, directory + ": no checkpoint verifies" + reasons);
}

}  // namespace weft::agent
