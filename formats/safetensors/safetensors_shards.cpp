// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/safetensors_shards.hpp"

#include "formats/internal/parts.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <cstdio>
#include <map>
#include <string_view>
#include <utility>

namespace weft::formats {
namespace {

constexpr std::string_view kSingle = "model.safetensors", kIndex = "model.safetensors.index.json";
constexpr std::size_t kMaxShards = 10'000, kMostMissing = 20;
constexpr JsonLimits kIndexLimits{.max_bytes = 100'000'000, .max_depth = 8, .max_values = std::size_t{1} << 22};

/// A file of the index's own directory: nothing that leads out of it.
bool is_plain_name(std::string_view name) {
  constexpr std::string_view kEnding = ".safetensors";
  return name.size() > kEnding.size() && name.size() <= 255 && name.ends_with(kEnding) && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

/// Tensors by the file that holds them.
using Shards = std::map<std::string, std::vector<std::string>, std::less<>>;

Result<Shards> read_shards(const Json& index) {
  const Json& map = index["weight_map"];
  if (!map.is_object() || map.empty())
    return fail(Errc::parse_failed,
                "weight_map: found " + printable(map.dump()) + ", expected tensors and their files");
  Shards shards;
  for (const auto& [tensor, file] : map.members()) {
    if (!file.is_string() || !is_plain_name(file.text()))
      return fail(Errc::corrupt, "weight_map." + printable(tensor) + ": found " + printable(file.dump()) +
                                     ", expected the name of a .safetensors file of this folder");
    shards[file.text()].push_back(tensor);
  }
  if (shards.size() > kMaxShards)
    return fail(Errc::too_large, std::to_string(shards.size()) + " files, at most " + std::to_string(kMaxShards));
  return shards;
}

std::uint64_t bytes_of(const TensorFile& file) {
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : file.tensors()) bytes += tensor.bytes.size();
  return bytes;
}

Result<SafetensorsModel> load_shards(storage::FileSystem& files, const std::string& directory, const Json& index) {
  WEFT_TRY(const Shards shards, read_shards(index));
  SafetensorsModel model;
  std::vector<std::shared_ptr<const TensorFile>> parts;
  std::vector<SafetensorsFile> opened;
  std::string missing;
  std::size_t missing_count = 0;
  for (const auto& [name, tensors] : shards) {
    auto file = load_safetensors(files, directory + "/" + name);
    if (file)
      opened.push_back(*std::move(file));
    else if (file.error().code() != Errc::not_found)
      return fail(std::move(file).error());
    else if (missing_count++ < kMostMissing)
      missing += (missing.empty() ? "" : ", ") + name;
  }
  if (missing_count > kMostMissing) missing += " and " + std::to_string(missing_count - kMostMissing) + " more";
  if (missing_count != 0)
    return fail(Errc::not_found, missing + (missing_count == 1 ? " is" : " are") + " not there, of " +
                                     std::to_string(shards.size()) + " files that it lists");
  auto next = opened.begin();
  for (const auto& [name, tensors] : shards) {
    SafetensorsFile& file = *next++;
    for (const std::string& tensor : tensors)
      if (!file.contains(tensor))
        return fail(Errc::not_found, "tensor '" + printable(tensor) + "' is not in " + name + ", where it should be");
    for (const Tensor& tensor : file.tensors())
      if (const Json* const listed = index["weight_map"].find(tensor.name); !listed || listed->text() != name)
        return fail(Errc::corrupt,
                    name + ": tensor '" + printable(tensor.name) + "' is not listed as one of this file");
    if (parts.empty()) model.notes = file.notes();
    parts.push_back(std::make_shared<const SafetensorsFile>(std::move(file)));
  }
  WEFT_TRY(JoinedTensorFile joined, JoinedTensorFile::join(std::move(parts)));
  const Json& total = index["metadata"]["total_size"];
  if (const std::uint64_t found = bytes_of(joined); total.is_natural() && total.get<std::uint64_t>() != found)
    model.warnings.push_back("metadata.total_size is " + std::to_string(total.get<std::uint64_t>()) +
                             ", the tensors have " + std::to_string(found) + " bytes");
  model.tensors = std::make_shared<const JoinedTensorFile>(std::move(joined));
  return model;
}

}  // namespace

Result<SafetensorsModel> load_safetensors_folder(storage::FileSystem& files, const std::string& directory) {
  const std::string single = directory + "/" + std::string(kSingle);
  if (auto file = load_safetensors(files, single)) {
    SafetensorsModel model{nullptr, file->notes(), {}};
    model.tensors = std::make_shared<const SafetensorsFile>(*std::move(file));
    return model;
  } else if (file.error().code() != Errc::not_found) {
    return fail(std::move(file).error());
  }
  const std::string path = directory + "/" + std::string(kIndex);
  auto text = files.read(path, kIndexLimits.max_bytes);
  if (!text && text.error().code() == Errc::not_found)
    return fail(Errc::not_found, directory + ": has neither " + std::string(kSingle) + " nor " + std::string(kIndex));
  if (!text) return fail(std::move(text).error());
  WEFT_TRY(const Json index, parse_json(as_text(*text), path, kIndexLimits));
  auto model = load_shards(files, directory, index);
  if (!model) return fail(std::move(model).error().within(path));
  return model;
}

Result<SafetensorsShards> safetensors_shard_sources(std::vector<Tensor> tensors, const SafetensorsNotes& notes,
                                                    std::uint64_t most_bytes) {
  std::uint64_t total = 0;
  auto parts = parts_of(std::move(tensors), most_bytes, [&](const Tensor& tensor) -> std::uint64_t {
    const auto bytes = tensor_size(tensor.type, tensor.shape);  // what has none is refused below
    total += bytes ? *bytes : 0;
    return bytes ? *bytes : 0;
  });
  if (parts.size() > kMaxShards)
    return fail(Errc::too_large, std::to_string(parts.size()) + " files of at most " + std::to_string(most_bytes) +
                                     " bytes of tensors, at most " + std::to_string(kMaxShards) + " are read");
  SafetensorsShards made;
  Json map = Json::object();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    char name[64] = "model.safetensors";
    if (parts.size() > 1) std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, parts.size());
    made.names.emplace_back(name);
    for (const Tensor& tensor : parts[i]) map[tensor.name] = made.names.back();
    WEFT_TRY(ByteSource source, safetensors_source(std::move(parts[i]), notes));
    made.sources.push_back(std::move(source));
  }
  if (parts.size() == 1) return made;
  WEFT_TRY(made.index, write_json({{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}}, 2));
  return made;
}

}  // namespace weft::formats
