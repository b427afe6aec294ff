// SPDX-License-Identifier: Apache-2.0

#include "models/internal/written_model.hpp"

#include "models/family.hpp"
#include "models/replaced_model.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::models::internal {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// True of the JSON of a model of a known family, and of PEFT's adapters.
bool describes_model(const Json& config) {
  if (!config.is_object()) return false;
  if (config.contains("peft_type")) return true;
  const Json* const type = config.find("model_type");
  if (type && type->is_string() && find_family(type->text())) return true;
  const Json* const names = config.find("architectures");
  if (!names || !names->is_array()) return false;
  return std::any_of(names->begin(), names->end(), [](const Json& name) {
    return std::any_of(families().begin(), families().end(),
                       [&](const Family* family) { return name == Json(std::string(family->architecture)); });
  });
}

/// True where the folder has the description of a model, and weights or their index.
bool is_model_folder(storage::FileSystem& files, const WrittenModel& model, const std::string& folder,
                     const std::vector<std::string>& names) {
  const auto is_weights = [&](const std::string& name) {
    return name.find(".safetensors") != name.npos &&
           (model.is_model_file(name) || file_name(model.set.made.front().path) == name);
  };
  if (std::none_of(names.begin(), names.end(), is_weights)) return false;
  const auto bytes = files.read(folder + "/" + model.description, std::size_t{128} << 20);
  if (!bytes) return false;
  const auto config = parse_json(as_text(*bytes), model.description);
  return config && describes_model(*config);
}

std::string listed(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + std::string(file_name(path));
  return text;
}

/// Refuses to touch what is none of a model. Notes say what is replaced and removed.
Status check_replaced(storage::FileSystem& files, const WrittenModel& model, const std::string& folder,
                      const std::vector<std::string>& names, const std::vector<std::string>& replaced,
                      std::vector<std::string>& notes) {
  const std::vector<std::string>& removed = model.set.stale;
  std::vector<std::string> touched = replaced;
  touched.insert(touched.end(), removed.begin(), removed.end());
  if (touched.empty()) return {};
  const bool is_model = !model.description.empty() && is_model_folder(files, model, folder, names);
  if (!model.is_forced && !model.description.empty() && !is_model)
    return fail(Errc::storage, touched.front() + ": is there, and " + folder + " is no model's folder (a " +
                                   model.description +
                                   " of a known model beside its weights), so nothing of it is replaced; give "
                                   "another place, or --force replaces or removes " +
                                   listed(touched));
  std::vector<std::string> told;  // the lists below say it
  if (model.description.empty())
    for (const std::string& path : touched)
      if (std::find(model.known.begin(), model.known.end(), path) == model.known.end())
        WEFT_CHECK(check_replaced_file(files, path, model.is_forced, told));
  const std::string place =
      (is_model || !model.is_forced ? ", of an earlier model" : "") + std::string(" at this place: ");
  if (!replaced.empty()) notes.push_back("replaced" + place + listed(replaced));
  if (!removed.empty()) notes.push_back("removed" + place + listed(removed));
  return {};
}

}  // namespace

Status make_shared_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directory(path, failed);
  if (!failed) return {};
  return fail(Errc::storage, path + ": cannot make the directory: " + failed.message());
}

Status write_model(storage::FileSystem& files, WrittenModel model, std::vector<std::string>& notes) {
  storage::FileSet& set = model.set;
  const std::string folder = storage::parent_path(set.made.back().path);
  std::vector<std::string> replaced;
  WEFT_TRY(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names) {
    const bool is_made =
        std::any_of(set.made.begin(), set.made.end(), [&](const auto& file) { return file_name(file.path) == name; });
    if (is_made)
      replaced.push_back(folder + "/" + name);
    else if (model.is_model_file(name))
      set.stale.push_back(folder + "/" + name);
  }
  std::vector<std::string> touched = set.stale;
  for (const auto& file : set.made) touched.push_back(file.path);
  std::error_code unknown;
  for (const std::string& path : touched)
    for (const std::string& read : model.read)
      if (std::filesystem::equivalent(path, read, unknown))
        return fail(Errc::invalid_argument,
                    path + ": is the file that is read, " + read + ", which is left alone; give another place");
  std::vector<std::string> told;
  WEFT_CHECK(check_replaced(files, model, folder, names, replaced, told));
  WEFT_CHECK(storage::replace_files_durably(files, set));
  notes.insert(notes.end(), told.begin(), told.end());
  return {};
}

}  // namespace weft::models::internal
