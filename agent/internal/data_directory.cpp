// SPDX-License-Identifier: Apache-2.0

#include "agent/internal/data_directory.hpp"

#include "agent/checkpointer.hpp"
#include "agent/network_difference.hpp"

#include "mesh/persistence/entity_model.hpp"

#include "core/json_reader.hpp"

namespace weft::agent::internal {

namespace {

constexpr std::string_view kKind = "weft agent";

Result<Hash128> read_hash(JsonReader& reader, std::string_view key) {
  WEFT_TRY(const std::string text, reader.string(key, 32));
  if (const auto hash = parse_hash128(text)) return *hash;
  return fail(Errc::parse_failed, reader.path_of(key) + ": '" + text + "' is no digest of 32 hex digits");
}

}  // namespace

std::string journal_in(const std::string& directory) { return directory + "/journal"; }

Status make_journal_in(storage::FileSystem& files, const std::string& directory) {
  WEFT_TRY([[maybe_unused]] const bool is_new, files.make_directory(journal_in(directory)));
  // Also when it is not new: who made it may have been killed before it came to this.
  return files.sync_directory(directory);
}

Result<std::optional<storage::Checkpoint>> find_latest(storage::FileSystem& files, storage::CheckpointStore& store,
                                                       std::vector<std::string>& passed_over) {
  auto found = store.latest();
  if (found) {
    if (*found) passed_over = (*found)->skipped;
    return found;
  }
  WEFT_TRY(const auto segments, storage::journal_segments(files, journal_in(store.directory())));
  if (found.error().code() != Errc::corrupt || store.keys() != std::vector{storage::CheckpointKey{}} ||
      !segments.empty())
    return found;
  passed_over.push_back(found.error().text());
  WEFT_CHECK(store.clear());
  return std::optional<storage::Checkpoint>();
}

std::string end_too_early(const std::string& journal, std::uint64_t end, std::uint64_t acknowledged) {
  return journal + ": ends at record " + std::to_string(end) + ", and record " + std::to_string(acknowledged) +
         " had been acknowledged";
}

Result<Found> read_checkpoint(const storage::Checkpoint& checkpoint) {
  WEFT_TRY(auto info, JsonReader::open(*checkpoint.info, checkpoint.path + ": info"));
  WEFT_TRY(const std::string kind, info.string("kind"));
  if (kind != kKind)
    return fail(Errc::invalid_argument,
                checkpoint.path + ": is a checkpoint of '" + kind + "', and no agent's; give a directory of its own");
  WEFT_TRY(const auto bytes, checkpoint.file(kAgentFile));
  WEFT_TRY(auto file, formats::decode_entity(bytes, checkpoint.path + "/" + kAgentFile));
  Found found{std::move(file), {}, 0, {}, {}, {}, {}};
  WEFT_TRY(found.place.number, info.u64("record"));
  WEFT_TRY(found.place.chain, read_hash(info, "chain"));
  WEFT_TRY(found.tick, info.u64("tick"));
  WEFT_TRY(found.hash, read_hash(info, "state_hash"));
  WEFT_CHECK(info.finish());
  if (storage::CheckpointKey{found.tick, found.place.number} != checkpoint.key)
    return fail(Errc::corrupt, checkpoint.path + ": info says tick " + std::to_string(found.tick) + ", record " +
                                   std::to_string(found.place.number));
  WEFT_TRY(const Json extras, parse_json(mesh::extras_of(found.file), checkpoint.path));
  WEFT_TRY(auto reader, JsonReader::open(extras, "extras"));
  WEFT_TRY(auto agent, reader.object("agent"));
  WEFT_TRY(const auto network, agent.value("network"));
  WEFT_TRY(found.network, write_json(network.raw()));
  WEFT_TRY(found.identity, agent.string("identity", std::size_t{1} << 20));
  WEFT_TRY(const auto extension, agent.value("extension"));
  WEFT_TRY(found.extension, write_json(extension.raw()));
  WEFT_CHECK(agent.finish());
  WEFT_CHECK(reader.finish());
  return found;
}

Status Found::check_hash(Hash128 restored, std::string_view path) const {
  if (restored == hash) return {};
  return fail(Errc::corrupt, std::string(path) + ": restored, its state has the hash " + to_string(restored) +
                                 ", it was " + to_string(hash) + " when it was saved");
}

Status Found::check_same(std::string_view given_network, std::string_view given_identity, std::string_view directory,
                         const Differ& differ) const {
  WEFT_TRY(const auto difference, differ ? differ(network, given_network) : network_difference(network, given_network));
  if (difference)
    return fail(Errc::invalid_argument, std::string(directory) + ": holds another agent: " + *difference +
                                            "; give it what it began with, or another directory");
  if (identity != given_identity)
    return fail(Errc::invalid_argument, std::string(directory) + ": holds another agent: it goes by '" + identity +
                                            "', here by '" + std::string(given_identity) + "'");
  return {};
}

Result<std::string> write_extras(std::string_view network, std::string_view identity, std::string_view extension) {
  WEFT_TRY(const Json network_json, parse_json(network, "network"));
  WEFT_TRY(const Json extension_json, parse_json(extension, "extension"));
  return write_json({{"agent", {{"network", network_json}, {"identity", identity}, {"extension", extension_json}}}});
}

std::string write_info(const storage::JournalPlace& place, std::uint64_t tick, Hash128 hash) {
  return Json{{"kind", kKind},
              {"record", place.number},
              {"chain", to_string(place.chain)},
              {"tick", tick},
              {"state_hash", to_string(hash)}}
      .dump();
}

}  // namespace weft::agent::internal
