// SPDX-License-Identifier: Apache-2.0

#include "cli/model.hpp"

#include "mesh/network_json.hpp"
#include "mesh/snapshot.hpp"

#include "formats/file_system.hpp"

#include <filesystem>
#include <utility>

namespace weft::cli {
namespace {
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 40;
}

Result<Model> read_model(const std::string& path) {
  formats::FileSystem& files = formats::real_file_system();
  WEFT_TRY(formats::ByteBuffer bytes, files.read(path, kMaxFileBytes));
  Model model;
  model.path = path;
  model.folder = formats::parent_path(path);
  model.file_bytes = bytes.size();
  if (!formats::as_text(bytes).starts_with("ENTITY")) {
    auto spec = mesh::read_network(formats::as_text(bytes), path);
    // Syntax errors carry the file's name already.
    if (!spec && spec.error().text().starts_with(path)) return fail(std::move(spec).error());
    if (!spec) return fail(std::move(spec).error().within(path));
    model.spec = std::move(*spec);
    return model;
  }
  WEFT_TRY(model.entity, formats::decode_entity(std::move(bytes), path));
  auto spec = mesh::network_of(*model.entity);
  if (!spec) return fail(std::move(spec).error().within(path));
  model.spec = std::move(*spec);
  return model;
}

std::string path_within(const std::string& folder, const std::string& path) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

}  // namespace weft::cli
