// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/served_model.hpp"

#include "storage/fwd.hpp"
#include "text/chat_template.hpp"

#include "core/result.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// Language models of a server by name.
/// @thread any
class ModelTable {
 public:
  /// The model that answers a request which names none that is served.
  enum class Fallback { automatic, always, never };  ///< automatic: the only one there is
  struct Options {
    ServedModel::Options serving{};
    Fallback fallback = Fallback::automatic;
    std::string tokenizer{};                            ///< file or folder of the tokenizer; empty: the model's own
    std::optional<text::ChatTemplate> chat_template{};  ///< instead of the models' own
  };

  explicit ModelTable(Options options) : options_(std::move(options)) {}

  /// True of a path that `load` takes: a folder, a GGUF file, an .entity file that weft import made.
  /// @error as FileSystem::map, decode_entity
  static Result<bool> is_model(storage::FileSystem& files, const std::string& path);
  /// @error duplicate_name, invalid_argument: no plain name; as load_language_model, ServedModel::make
  Result<std::shared_ptr<ServedModel>> load(storage::FileSystem& files, const std::string& name,
                                            const std::string& path);
  /// The model of exactly this name. Null: there is none.
  std::shared_ptr<ServedModel> find(std::string_view name) const;
  /// The model that answers a request for `name` (empty: none is named). @error not_found
  Result<std::shared_ptr<ServedModel>> choose(std::string_view name) const;
  /// By name.
  std::vector<std::shared_ptr<ServedModel>> all() const;
  void stop_all();

 private:
  const Options options_;
  mutable std::mutex mutex_;  // of the models
  std::map<std::string, std::shared_ptr<ServedModel>, std::less<>> models_;
};

}  // namespace weft::server
